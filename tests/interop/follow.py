"""Runs one client's steps with tasks, and shows what came of each.

The command prints one JSON line a step: `{"step", "ok", "detail"}`. With a line `{"restart": true}`
it asks for the server to be killed and started again, which a line on its standard input confirms.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

STEPS = [
    "connect", "create", "poll", "result", "question", "cancel", "failure", "listed", "restart", "kept", "still_listed",
]
# Only a server that is reached by an address can be started again under its client.
AFTER_RESTART = {"restart", "kept", "still_listed"}
# Only this design has a list of tasks.
LISTS = {"listed", "still_listed"}
LISTED_IN = "2025-11-25"
# Every step may take 40 s of its own.
PROGRAM_SECONDS = 40 * len(STEPS) + 30
START_SECONDS = 30
COLOURS = {"ok": "\x1b[32m", "FAIL": "\x1b[31m"}


class Trouble(Exception):
    """What the one who reads the table must know."""


class Server:
    """A server with its state in a file, at one address for as long as the client runs."""

    def __init__(self, program, port, folder, log):
        self.url = f"http://127.0.0.1:{port}"
        self.command = [program, "--http", f"127.0.0.1:{port}", "--data", os.path.join(folder, "state.sqlite")]
        self.log = log

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise Trouble(f"the server does not start; its log is {self.log.name}")
            time.sleep(0.05)

    def answers(self):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"{self.url}/healthz", timeout=2).status == 200
        return False

    def again(self):
        self.kill()
        self.start()

    def kill(self):
        """SIGKILL: it has no time for a last word."""
        self.process.kill()
        status = self.process.wait()
        if status != -signal.SIGKILL:
            raise Trouble(f"the server ended by itself with status {status}; its log is {self.log.name}")


def due(revision, transport):
    """The steps that can be taken here."""
    steps = [step for step in STEPS if revision == LISTED_IN or step not in LISTS]
    return [step for step in steps if transport == "http" or step not in AFTER_RESTART]


def follow(command, steps, log, restart):
    """Runs the client, and shows its lines as they come; the names of the steps that went well."""
    passed = []
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    late = threading.Timer(PROGRAM_SECONDS, program.kill)
    late.start()
    try:
        for text in program.stdout:
            line = json.loads(text)
            if "restart" in line:
                restart()
                print("restarted", file=program.stdin, flush=True)
                continue
            show(line["step"], line["ok"], line["detail"])
            if line["ok"]:
                passed.append(line["step"])
        status = program.wait()
    finally:
        late.cancel()
        program.kill()
        program.wait()
    missing = [step for step in steps if step not in passed]
    if passed != steps or status != 0:
        raise Trouble(f"without success: {missing}; the client ended with status {status}; its log is {log.name}")


def show(step, ok, detail):
    mark = "ok" if ok else "FAIL"
    paint = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    painted = f"{COLOURS[mark]}{mark:<4}\x1b[0m" if paint else f"{mark:<4}"
    print(f"    {step:<12}  {painted}  {detail}".rstrip(), flush=True)


def run(asked, log):
    steps = due(asked.revision, asked.transport)
    if asked.transport == "stdio":
        follow([*asked.command, "stdio", asked.server], steps, log, lambda: None)
        return
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        with Server(asked.server, asked.port, folder, log) as server:
            follow([*asked.command, "http", f"{server.url}/mcp"], steps, log, server.again)
            server.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--transport", choices=["stdio", "http"], required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    # As an exception, so that the server ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"{asked.client} {asked.version} over {asked.transport}, tasks of {asked.revision}", flush=True)
    with open(asked.results / f"tasks.{asked.client}.{asked.transport}.log", "w") as log:
        try:
            run(asked, log)
        except Trouble as trouble:
            print(f"    {trouble}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
