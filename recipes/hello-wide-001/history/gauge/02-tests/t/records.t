use strict;
use warnings;
use Tap;
use Gauge;

sub readings {
    my ($text) = @_;
    return Gauge::read_raw('HB1', 'raw', split /\n/, $text);
}

test 'a line becomes a reading' => sub {
    my @found = readings("2024-03-01T06:00Z 1.42\n");
    @found == 1 && $found[0]{station} eq 'HB1' && $found[0]{time} eq '2024-03-01T06:00Z' && $found[0]{height} eq '1.42';
};

test 'readings keep their order' => sub {
    join(' ', map { $_->{height} } readings("a 3\nb 1\nc 2\n")) eq '3 1 2';
};

test 'a record begins with station, time and height' => sub {
    my ($reading) = readings("2024-03-01T06:00Z 1.42\n");
    Gauge::format_record($reading) =~ /\AHB1\t2024-03-01T06:00Z\t1\.42(?:\t|\z)/;
};

1;
