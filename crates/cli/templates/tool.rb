#!/usr/bin/env ruby
# Says hello to somebody. (The model reads this sentence: say what the tool does, and when to use it.)
#
# @param name string            Who to greet.
# @param loud boolean = false   Whether to shout.
# @read-only

require "zcp"

args = Zcp.args
greeting = "Hello, #{args["name"]}!"
puts args["loud"] ? greeting.upcase : greeting
