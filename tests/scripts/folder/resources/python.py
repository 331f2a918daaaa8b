#!/usr/bin/env python3
import json
import os

import zcp

print(json.dumps({**zcp.args(), "uri": os.environ["ZCP_URI"]}))
