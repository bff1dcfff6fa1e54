package Gauge;

use strict;
use warnings;

# Units of height that a raw file may name.
my %IS_UNIT = map { $_ => 1 } qw(m ft);

# Returns a reading (a hash with station, time, height, unit) for every line of a raw file; dies with FILE:LINE: reason.
sub read_raw {
    my ($station, $name, @lines) = @_;
    my @readings;
    my $number = 0;
    for my $line (@lines) {
        $number++;
        next if $line !~ /\S/;
        my ($time, $value, @more) = split ' ', $line;
        my ($height, $unit) = parse_height($value);
        die "gauge: $name:$number: no reading: $line\n" if @more || !defined $height;
        die "gauge: $name:$number: unknown unit: $unit\n" if !$IS_UNIT{$unit};
        push @readings, { station => $station, time => $time, height => $height, unit => $unit };
    }
    return @readings;
}

# Returns number and unit of a height such as 1.42, 1.42m or 4.65ft (metres unless it says otherwise), or nothing.
sub parse_height {
    my ($value) = @_;
    return if !defined $value || $value !~ /\A(-?[0-9]+(?:\.[0-9]+)?)([A-Za-z]*)\z/;
    return ($1, $2 eq '' ? 'm' : $2);
}

# Returns the record of a reading, without the end of the line; a reading without a unit is in metres.
sub format_record {
    my ($reading) = @_;
    my %full = (unit => 'm', %{$reading});
    return join "\t", @full{qw(station time height unit)};
}

1;
