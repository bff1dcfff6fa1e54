use strict;
use warnings;
use Tap;
use Gauge;

for my $line ('2024-03-01T06:00Z', '2024-03-01T06:00Z high', '2024-03-01T06:00Z 1.42 2.42') {
    test "refuses the line '$line'" => sub {
        my $text = "a 1\n$line\n";
        eval { Gauge::read_raw('HB1', 'raw', split /\n/, $text) };
        $@ eq "gauge: raw:2: no reading: $line\n";
    };
}

1;
