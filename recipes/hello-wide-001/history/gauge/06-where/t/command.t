use strict;
use warnings;
use Tap;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

my $root  = dirname(dirname(abs_path(__FILE__)));
my $gauge = "$root/bin/gauge";

test 'gauge where names the module beside it' => sub {
    my $where = `$^X $gauge where`;
    $where eq "$root/lib/Gauge.pm\n";
};

test 'gauge without a verb explains itself' => sub {
    my $said = `$^X $gauge 2>&1`;
    $? >> 8 == 64 && $said =~ /\Ausage: gauge emit/;
};

1;
