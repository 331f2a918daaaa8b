#!/usr/bin/env ruby
# Asks about something.
# @param topic string  About what.
require "zcp"

asked = { role: "user", content: "About #{Zcp.args["topic"]}" }
puts JSON.generate([asked, { role: "assistant", content: "Yes?" }])
