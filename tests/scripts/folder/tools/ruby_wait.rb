# Waits for longer than anybody does.
#
# @param mark string  Seconds, by which its processes are known.
# @args {mark}
require "zcp"

Zcp.progress(1, nil, "waiting")
system("sleep", *ARGV)
