"""Runs each client over its transports and prints what came of every step.

A column is `CLIENT VERSION TRANSPORT COMMAND...`; the command prints one JSON line a step:
`{"step", "ok", "detail"}`, or `{"step", "cannot"}` when the client has no API for it.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

STEPS = [
    "connect", "list_pages", "progress", "structured", "invalid_output", "invalid_arguments", "cancel",
    "stays_cancelled", "sampling", "elicitation", "roots", "resources", "resource_updated", "prompts", "completion",
    "logging", "list_changed", "close",
]
# Every step may take 20 s of its own.
PROGRAM_SECONDS = 20 * len(STEPS) + 30
# Columns that run at the same time: most of what they do is waiting.
AT_ONCE = 4
SERVER_SECONDS = 10
ADDRESSES = {"http": "http://127.0.0.1:{}/mcp", "sse": "http://127.0.0.1:{}/sse", "ws": "ws://127.0.0.1:{}/ws"}
WIDTH = 7
# Columns of one table.
MOST = 13
COLOURS = {"ok": "\x1b[32m", "FAIL": "\x1b[31m", "n/a": "\x1b[33m"}


@dataclass
class Column:
    client: str
    version: str
    transport: str
    command: list[str]
    lines: dict[str, dict] = field(default_factory=dict)
    end: str = ""

    @classmethod
    def parse(cls, text):
        client, version, transport, *command = text.split(" ")
        return cls(client, version, transport, command)

    @property
    def name(self):
        return f"{self.client} {self.transport}"

    def run(self, server, results):
        begun = time.monotonic()
        try:
            with reached(self.transport, server, results / f"{self.client}.{self.transport}.server.log") as target:
                self.perform(target, results)
        except ServerFailed as why:
            self.lines.clear()
            self.end = str(why)
        print(f"{self.client} {self.version} over {self.transport}: {time.monotonic() - begun:.0f} s", flush=True)

    def perform(self, target, results):
        with open(results / f"{self.client}.{self.transport}.log", "w+") as log:
            program = [*self.command, self.transport, target]
            try:
                done = subprocess.run(
                    program, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, timeout=PROGRAM_SECONDS, text=True
                )
                output, self.end = done.stdout, f"the program ended with status {done.returncode}"
            except subprocess.TimeoutExpired as late:
                output, self.end = (late.stdout or b"").decode(), f"the program was stopped after {PROGRAM_SECONDS} s"
            log.seek(0)
            self.end += "".join(f"\n        {line}" for line in log.read().splitlines()[-5:])
        (results / f"{self.client}.{self.transport}.jsonl").write_text(output)
        for text in output.splitlines():
            line = json.loads(text)
            self.lines[line["step"]] = line

    def cell(self, step):
        """What stands in the matrix, and what is said about it."""
        line = self.lines.get(step)
        if line is None:
            return "FAIL", self.end
        if "cannot" in line:
            return "n/a", line["cannot"]
        return ("ok" if line["ok"] else "FAIL"), line["detail"]


class ServerFailed(Exception):
    """The server did not start, or did not stay until it was told to end."""


@contextmanager
def reached(transport, server, log):
    """Where the client finds the server: each column has its own, so that none sees what another one changes."""
    if transport == "stdio":
        yield server
        return
    port = free_port()
    with open(log, "w+") as output:
        command = [server, "--http", f"127.0.0.1:{port}", "--page-size", "15"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            wait_until_healthy(port, process)
            yield ADDRESSES[transport].format(port)
            if process.poll() is not None:
                raise ServerFailed(f"the server ended with status {process.returncode}; its log is {log}")
        finally:
            process.terminate()
            try:
                process.wait(SERVER_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_healthy(port, process):
    end = time.monotonic() + SERVER_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise ServerFailed("the server does not answer GET /healthz")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def tables(columns):
    """As many columns side by side as fit, and all of a client together."""
    table = []
    for _, group in groupby(columns, key=lambda column: column.client):
        group = list(group)
        if table and len(table) + len(group) > MOST:
            yield table
            table = []
        table += group
    yield table


def show(columns, steps):
    paint = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print()
    print(heading(columns, "client"))
    print(heading(columns, "version"))
    print((f"{'':<18}" + "".join(f"{column.transport:<{WIDTH}}" for column in columns)).rstrip())
    for step in steps:
        row = f"{step:<18}"
        for column in columns:
            cell, _ = column.cell(step)
            row += f"{COLOURS[cell]}{cell:<{WIDTH}}\x1b[0m" if paint else f"{cell:<{WIDTH}}"
        print(row.rstrip())


def heading(columns, attribute):
    """A line that names each client once, above all its transports."""
    row = f"{'':<18}"
    for _, group in groupby(columns, key=lambda column: column.client):
        group = list(group)
        row += f"{getattr(group[0], attribute):<{WIDTH * len(group)}}"
    return row.rstrip()


def reasons(columns, steps, kind):
    found = [(c.name, step, c.cell(step)[1]) for c in columns for step in steps if c.cell(step)[0] == kind]
    if found:
        print(f"\n{kind}")
    for name, step, why in found:
        print(f"    {name} · {step}: {why}")
    return len(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--steps", type=lambda names: names.split(","), default=STEPS)
    parser.add_argument("columns", nargs="+", type=Column.parse)
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda column: column.run(asked.server, asked.results), asked.columns))
    for table in tables(asked.columns):
        show(table, asked.steps)
    reasons(asked.columns, asked.steps, "n/a")
    failed = reasons(asked.columns, asked.steps, "FAIL")
    cells = len(asked.columns) * len(asked.steps)
    print(f"\n{cells - failed} of {cells} without a failure")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
