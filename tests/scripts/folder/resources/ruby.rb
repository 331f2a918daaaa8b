#!/usr/bin/env ruby
require "zcp"

puts JSON.generate(Zcp.args.merge("uri" => ENV.fetch("ZCP_URI")))
