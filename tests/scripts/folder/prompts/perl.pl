#!/usr/bin/env perl
# Asks about something.
# @param topic string  About what.
use strict;
use warnings;
use JSON::PP;

my $topic = decode_json(do { local $/; <STDIN> })->{topic};
my @messages = ([user => "About $topic"], [assistant => 'Yes?']);
print encode_json([map { { role => $_->[0], content => $_->[1] } } @messages]);
