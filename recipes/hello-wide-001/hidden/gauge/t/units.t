use strict;
use warnings;
use Tap;
use Gauge;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp;

my $gauge = dirname(dirname(abs_path(__FILE__))) . '/bin/gauge';

my $records = sub {
    return join "\n", map { Gauge::format_record($_) } Gauge::read_raw('HB3', 'raw', @_);
};

my $refusal = sub {
    eval { Gauge::read_raw('HB3', 'raw', @_) };
    return $@;
};

test 'a bare height is in metres' => sub { $records->('a 1.42') eq "HB3\ta\t1.42\tm" };

test 'a height in feet says so' => sub { $records->('a 4.65ft') eq "HB3\ta\t4.65\tft" };

test 'a height may say that it is in metres' => sub { $records->('a 1.42m') eq "HB3\ta\t1.42\tm" };

test 'the units of one file may differ' => sub {
    $records->('a 1', '', 'b 2ft', 'c 3m') eq "HB3\ta\t1\tm\nHB3\tb\t2\tft\nHB3\tc\t3\tm";
};

test 'a reading keeps its unit' => sub {
    my ($reading) = Gauge::read_raw('HB3', 'raw', 'a -0.5ft');
    $reading->{height} eq '-0.5' && $reading->{unit} eq 'ft';
};

test 'the record of a reading without a unit is in metres' => sub {
    Gauge::format_record({ station => 'HB1', time => 'a', height => '1.42' }) eq "HB1\ta\t1.42\tm";
};

test 'an unknown unit is refused by its name' => sub {
    $refusal->('a 1', 'b 2fathom') eq "gauge: raw:2: unknown unit: fathom\n";
};

test 'the command prints the unit' => sub {
    my $raw = File::Temp->new;
    print {$raw} "a 1.42\nb 4.65ft\n";
    close $raw or die $!;
    `$^X $gauge emit HB3 $raw` eq "HB3\ta\t1.42\tm\nHB3\tb\t4.65\tft\n" && $? == 0;
};

test 'the command fails on an unknown unit' => sub {
    my $raw = File::Temp->new;
    print {$raw} "a 1fathom\n";
    close $raw or die $!;
    my $said = `$^X $gauge emit HB3 $raw 2>&1`;
    $? != 0 && $said eq "gauge: $raw:1: unknown unit: fathom\n";
};

# What has to stay as it is.

test 'a unit apart from its number is no reading' => sub {
    $refusal->('a 4.65 ft') eq "gauge: raw:1: no reading: a 4.65 ft\n";
};

test 'a height that is no number is no reading' => sub {
    $refusal->('a 1.4.2') eq "gauge: raw:1: no reading: a 1.4.2\n";
};

test 'a negative height is a reading' => sub {
    my ($reading) = Gauge::read_raw('HB1', 'raw', 'a -0.5');
    $reading->{height} eq '-0.5';
};

1;
