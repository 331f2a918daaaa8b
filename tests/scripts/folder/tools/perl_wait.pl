# Waits for longer than anybody does.
#
# @param mark string  Seconds, by which its processes are known.
# @args {mark}
use strict;
use warnings;

open my $out, '>>', $ENV{ZCP_OUT} or die $!;
print $out "progress 1 waiting\n";
close $out;
system 'sleep', @ARGV;
