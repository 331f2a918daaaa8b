"""Runs each client over its transports and prints what came of every step.

A column is `CLIENT VERSION TRANSPORT COMMAND...`; the command prints one JSON line a step:
`{"step", "ok", "detail"}`, or `{"step", "cannot"}` when the client has no API for it.
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

STEPS = [
    "connect", "list_pages", "progress", "structured", "invalid_output", "invalid_arguments", "cancel", "sampling",
    "elicitation", "roots", "resources", "resource_updated", "prompts", "completion", "logging", "list_changed",
    "close",
]
# Every step may take 20 s of its own.
PROGRAM_SECONDS = 20 * len(STEPS) + 30
WIDTH = 7
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

    def run(self, target, results):
        with open(results / f"{self.client}.{self.transport}.log", "w+") as log:
            program = [*self.command, self.transport, target]
            try:
                done = subprocess.run(
                    program, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, timeout=PROGRAM_SECONDS, text=True
                )
                output, self.end = done.stdout, f"ended with status {done.returncode}"
            except subprocess.TimeoutExpired as late:
                output, self.end = (late.stdout or b"").decode(), f"was stopped after {PROGRAM_SECONDS} s"
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
            return "FAIL", f"the program {self.end}"
        if "cannot" in line:
            return "n/a", line["cannot"]
        return ("ok" if line["ok"] else "FAIL"), line["detail"]


def targets(server, url):
    return {"stdio": server, "http": url, "ws": url.replace("http://", "ws://", 1).removesuffix("/mcp") + "/ws"}


def show(columns):
    paint = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print()
    print(heading(columns, "client"))
    print(heading(columns, "version"))
    print((f"{'':<18}" + "".join(f"{column.transport:<{WIDTH}}" for column in columns)).rstrip())
    for step in STEPS:
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


def reasons(columns, kind):
    found = [(c.name, step, c.cell(step)[1]) for c in columns for step in STEPS if c.cell(step)[0] == kind]
    if found:
        print(f"\n{kind}")
    for name, step, why in found:
        print(f"    {name} · {step}: {why}")
    return len(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("columns", nargs="+", type=Column.parse)
    asked = parser.parse_args()
    asked.results.mkdir(parents=True, exist_ok=True)
    where = targets(asked.server, asked.url)
    for column in asked.columns:
        print(f"{column.client} {column.version} over {column.transport}", flush=True)
        column.run(where[column.transport], asked.results)
    show(asked.columns)
    reasons(asked.columns, "n/a")
    failed = reasons(asked.columns, "FAIL")
    print(f"\n{len(asked.columns) * len(STEPS) - failed} of {len(asked.columns) * len(STEPS)} without a failure")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
