#!/usr/bin/perl
# Runs every t/*.t: perl t/all.pl
use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

my $root;
BEGIN { $root = dirname(dirname(abs_path(__FILE__))) }
use lib "$root/lib", "$root/t";
use Tap;

$| = 1;
for my $file (sort glob "$root/t/*.t") {
    my $done = do $file;
    my $name = substr $file, length("$root/");
    test("$name is read to its end", sub { defined $done or die $@ || $! });
}
exit Tap::finish();
