package Tap;

# The smallest writer of TAP that serves: every test is a name and a sub that returns true; dying is failing.

use strict;
use warnings;

use Exporter 'import';
our @EXPORT = qw(test);

my ($count, $failed) = (0, 0);

sub test {
    my ($name, $code) = @_;
    my $passed = eval { $code->() };
    my $error  = $@;
    $count++;
    $failed++ unless $passed;
    print $passed ? 'ok' : 'not ok', " $count - $name\n";
    print "# $_\n" for split /\n/, $error;
    return;
}

# Prints the plan and returns the exit code.
sub finish {
    print "1..$count\n";
    return $failed || !$count ? 1 : 0;
}

1;
