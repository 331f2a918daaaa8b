#!/usr/bin/env python3
"""Says hello to somebody. (The model reads this sentence: say what the tool does, and when to use it.)

@param name string            Who to greet.
@param loud boolean = false   Whether to shout.
@read-only
"""

import zcp

args = zcp.args()
greeting = f"Hello, {args['name']}!"
print(greeting.upper() if args["loud"] else greeting)
