# Waits for longer than anybody does.
#
# @param mark string  Seconds, by which its processes are known.
# @args {mark}
import subprocess
import sys

import zcp

zcp.progress(1, message="waiting")
subprocess.run(["sleep", sys.argv[1]])
