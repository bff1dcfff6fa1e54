use strict;
use warnings;
use Tap;
use Gauge;

test 'blank lines are passed over' => sub {
    my $text = "a 1\n\n  \t\nb 2\n";
    my @found = Gauge::read_raw('HB1', 'raw', split /\n/, $text);
    @found == 2;
};

1;
