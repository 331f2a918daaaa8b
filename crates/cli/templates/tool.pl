#!/usr/bin/env perl
# Says hello to somebody. (The model reads this sentence: say what the tool does, and when to use it.)
#
# @param name string            Who to greet.
# @param loud boolean = false   Whether to shout.
# @read-only
use strict;
use warnings;

my $greeting = "Hello, $ENV{ARG_NAME}!";
print $ENV{ARG_LOUD} eq 'true' ? uc $greeting : $greeting, "\n";
