# Asks, and goes on, while nobody needs to wait.
# @task
require "zcp"

Zcp.progress(1, 2, "working")
sleep 0.5
puts "done" if Zcp.confirm("sure", "Sure?")
