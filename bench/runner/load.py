"""The load generator, as functions: each gives what it printed, or an error in the same shape."""

import json
import os
import subprocess

from . import places

PATIENCE = 300


class Load:
    def __init__(self, pins, program=None):
        self.pins, self.program = pins, program or places.load_program()

    def calls(self, running, era, operation, connections, seconds, warm, wire="http"):
        """Calls on many connections, for some seconds."""
        options = place(running, "/ws" if wire == "ws" else None)
        options += work(running.server, era, operation)
        options += ["--connections", connections, "--seconds", seconds, "--warm", warm]
        return self.run(wire, options)

    def count(self, running, era, count):
        """So many calls of `echo` on one connection."""
        options = place(running) + work(running.server, era, "echo") + ["--count", count]
        return self.run("http", options)

    def stdio(self, server, era, count, rounds, warm, pipelined, wrap=None):
        """Calls to a server of its own, pinned unless it is wrapped in something else."""
        wrap = self.pins.server if wrap is None else wrap
        options = work(server, era, "echo") + ["--count", count, "--rounds", rounds]
        options += ["--warm", warm] + (["--pipelined"] if pipelined else [])
        return self.run("stdio", [*options, "--", *wrap, *server.command, "stdio"], server.env)

    def sessions(self, running, connections, seconds, warm):
        options = ["--connections", connections, "--seconds", seconds, "--warm", warm]
        return self.run("sessions", place(running) + options)

    def open(self, running, kind, count):
        return self.run("open", place(running) + ["--kind", kind, "--count", count])

    def replay(self, running):
        """Ten thousand events, to clients that come back."""
        return self.run("replay", place(running))

    def startup(self, server, port):
        """One start, over HTTP."""
        options = ["--port", port, "--path", server.path, "--times", 1, "--"]
        command = [*self.pins.server, *server.command, "http", port, "modern"]
        return self.run("startup", options + command, server.env)

    def run(self, command, options, env=None):
        line = [*self.pins.load, str(self.program), command, *map(str, options)]
        try:
            said = subprocess.run(
                line,
                env={**os.environ, **(env or {})},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return failure(f"nothing after {PATIENCE} seconds")
        if said.returncode != 0:
            return failure(said.stderr.strip()[-300:] or f"ended with {said.returncode}")
        return json.loads(said.stdout)


def place(running, path=None):
    path = path or running.server.path
    return ["--port", running.port, "--path", path, "--pid", running.pid]


def work(server, era, operation):
    any_id = ["--any-id"] if server.answers_any_id else []
    return ["--era", era, "--operation", operation, *any_id]


def failure(why):
    return {"errors": 1, "first_error": why}
