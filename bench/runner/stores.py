"""The stores a server may keep its state in: in memory, in a file, in a Redis of this run's own."""

import atexit
import os
import shutil
import subprocess
import tempfile
import time

from . import places
from .servers import free_port, is_reachable

NAMES = ("memory", "sqlite", "redis")
START_PATIENCE = 10


class Stores:
    """Each is made when it is first asked for, and gone at the end of the program."""

    def __init__(self):
        self.folder, self.redis = None, None

    def env(self, name):
        """What tells a server where to keep its state."""
        if name == "redis":
            return {"STORE": self.redis_url()}
        return {"STORE": name if name == "memory" else os.path.join(self.place(), "state.sqlite")}

    def place(self):
        if self.folder is None:
            self.folder = tempfile.mkdtemp(prefix="zcp-bench-")
            atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        return self.folder

    def redis_url(self):
        if self.redis is None:
            self.redis = self.start_redis()
        return f"redis://127.0.0.1:{self.redis}/"

    def start_redis(self):
        port = free_port()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = [redis_program(), "--port", str(port), "--save", "", "--appendonly", "no"]
        process = subprocess.Popen(command, cwd=self.place(), **quiet)
        atexit.register(process.terminate)
        deadline = time.monotonic() + START_PATIENCE
        while not is_reachable(port):
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError("redis-server does not start")
            time.sleep(0.05)
        return port


def redis_program():
    """The system's, or the one that the tests fetch."""
    fetched = places.TOOLS / "redis" / "bin" / "redis-server"
    found = shutil.which("redis-server") or (str(fetched) if fetched.exists() else None)
    if not found:
        raise RuntimeError("redis-server is missing: `./test unit` fetches one")
    return found
