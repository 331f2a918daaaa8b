#!/usr/bin/env perl
use strict;
use warnings;
use JSON::PP;

my $args = decode_json(do { local $/; <STDIN> });
print encode_json({ %$args, uri => $ENV{ZCP_URI} });
