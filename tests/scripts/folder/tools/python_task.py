# Asks, and goes on, while nobody needs to wait.
# @task
import time

import zcp

zcp.progress(1, 2, "working")
time.sleep(0.5)
if zcp.confirm("sure", "Sure?"):
    print("done")
