# Does one of the things that scripts can without an SDK.
#
# @param do string        Which.
# @param [about] string   A file to do it with.
# @output-files
use strict;
use warnings;
use JSON::PP;
use MIME::Base64;
use Time::HiRes 'sleep';

my $given = decode_json(do { local $/; <STDIN> });

sub read_file {
    open my $file, '<:raw', shift or die $!;
    local $/;
    return scalar <$file>;
}

sub tell_server {
    open my $out, '>>', $ENV{ZCP_OUT} or die $!;
    print $out "@_\n";
}

my %things = (
    progress => sub {
        tell_server('progress 1/4 begun');
        sleep 0.1;
        tell_server('progress 2.5/4');
        sleep 0.1;
        tell_server('progress 4/4 all done');
        print "told\n";
    },
    # A whole result, as the protocol has it.
    content => sub {
        print encode_json({
            structuredContent => { city => 'Oslo' },
            content => [
                { type => 'text', text => '{"city":"Oslo"}' },
                { type => 'text', text => 'and more' },
                { type => 'image', mimeType => 'image/png',
                  data => encode_base64(read_file('files/dot.png'), '') },
                { path => 'files/tone.wav' },
                { path => 'files/note.txt' },
                { type => 'resource_link', uri => 'https://example.com/map', name => 'Map' },
            ],
        });
    },
    print => sub { binmode STDOUT; print read_file($given->{about}) },
    exit => sub {
        print "half done\n";
        print STDERR "no such city\n";
        exit 3;
    },
);
$things{$given->{do}}->();
