use strict;
use warnings;
use Tap;
use Gauge;

test 'comments are passed over' => sub {
    my $text = "# morning\na 1\n  # noon\nb 2\n";
    my @found = Gauge::read_raw('HB1', 'raw', split /\n/, $text);
    @found == 2;
};

1;
