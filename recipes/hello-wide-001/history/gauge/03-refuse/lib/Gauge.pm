package Gauge;

use strict;
use warnings;

# Returns a reading (a hash with station, time, height) for every line of a raw file; dies with FILE:LINE: reason.
sub read_raw {
    my ($station, $name, @lines) = @_;
    my @readings;
    my $number = 0;
    for my $line (@lines) {
        $number++;
        my ($time, $height, @more) = split ' ', $line;
        die "gauge: $name:$number: no reading: $line\n" if @more || !defined $height || $height !~ /\A-?[0-9]+(?:\.[0-9]+)?\z/;
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
