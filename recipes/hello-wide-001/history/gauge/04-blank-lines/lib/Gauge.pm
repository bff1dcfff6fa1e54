package Gauge;

use strict;
use warnings;

# Returns a reading (a hash with station, time, height) for every line of a raw file.
sub read_raw {
    my ($station, $name, @lines) = @_;
    my @readings;
    for my $line (@lines) {
        next if $line !~ /\S/;
        my ($time, $height) = split ' ', $line;
        push @readings, { station => $station, time => $time, height => $height };
    }
    return @readings;
}

# Returns the record of a reading, without the end of the line.
sub format_record {
    my ($reading) = @_;
    return join "\t", @{$reading}{qw(station time height)};
}

1;
