# Shows what it was given.
#
# @param word string            A word.
# @param [many] string[]        More of them.
# @param loud boolean = false   Whether to shout.
import json
import os
import sys

import zcp

print(json.dumps({"args": zcp.args(), "word": os.environ.get("ARG_WORD"), "argv": sys.argv[1:]}))
