#!/usr/bin/env python3
# Asks about something.
# @param topic string  About what.
import json

import zcp

asked = {"role": "user", "content": {"type": "text", "text": f"About {zcp.args()['topic']}"}}
print(json.dumps({"messages": [asked, {"role": "assistant", "content": "Yes?"}]}))
