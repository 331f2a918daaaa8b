# frozen_string_literal: true

# Shows what it was given.
#
# @param word string            A word.
# @param [many] string[]        More of them.
# @param loud boolean = false   Whether to shout.
require "zcp"

puts JSON.generate({ args: Zcp.args, word: ENV.fetch("ARG_WORD", nil), argv: ARGV })
