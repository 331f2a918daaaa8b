# Shows what it was given.
#
# @param word string            A word.
# @param [many] string[]        More of them.
# @param loud boolean = false   Whether to shout.
use strict;
use warnings;
use Encode;
use JSON::PP;

my $args = do { local $/; <STDIN> } || '{}';
my ($word, @argv) = map { decode_utf8($_) } $ENV{ARG_WORD}, @ARGV;
print encode_json({ args => decode_json($args), word => $word, argv => \@argv });
