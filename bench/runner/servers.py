"""The servers that are compared: read from servers.json, started, reached and stopped."""

import dataclasses
import json
import os
import socket
import subprocess
import time

from . import places

# Seconds a server may take to listen, and to end.
START_PATIENCE = 60
STOP_PATIENCE = 20
SLOW_LANGUAGES = ("Python", "TypeScript")


@dataclasses.dataclass(frozen=True)
class Server:
    name: str
    language: str
    command: tuple
    env: dict
    wires: tuple
    path: str
    about: str

    @property
    def kind(self):
        """`ours`, `limit` (not an MCP server) or `peer`."""
        if self.name.startswith("zcp-"):
            return "ours"
        return "limit" if self.name.startswith("limit-") else "peer"

    @property
    def is_slow(self):
        return self.language in SLOW_LANGUAGES

    @property
    def answers_any_id(self):
        """One answer made in advance cannot have the id of each request."""
        return self.name.endswith("-prepared")

    def __hash__(self):
        return hash(self.name)


def read():
    """Every server of servers.json."""
    known = json.loads((places.BENCH / "servers" / "servers.json").read_text())
    return [Server(**{**row, "command": resolve(row["command"])}) for row in known]


def resolve(command):
    names = {
        "{release}": places.release(),
        "{tools}": places.TOOLS,
        "{bench}": places.BENCH,
    }
    words = []
    for word in command:
        for name, path in names.items():
            word = word.replace(name, str(path))
        words.append(word)
    return tuple(words)


class Running:
    """A server that listens on a port, until `stop`."""

    def __init__(self, server, mode, wrap=(), env=None):
        self.server, self.port = server, free_port()
        command = [*wrap, *server.command, "http", str(self.port), mode]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **server.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.wait_until_reachable()

    @property
    def pid(self):
        return self.process.pid

    def wait_until_reachable(self):
        deadline = time.monotonic() + START_PATIENCE
        while not is_reachable(self.port):
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.server.name} ended before it could be reached")
            if time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{self.server.name} cannot be reached")
            time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Fleet:
    """The servers of one comparison: each is started when first asked for, all stop at the end."""

    def __init__(self, pins):
        self.pins, self.running = pins, {}

    def get(self, server, mode, env=None, prepare=None):
        """The running server; `prepare` is called with it once, when it has just started."""
        key = (server.name, mode, *sorted((env or {}).items()), prepare)
        if key in self.running and self.running[key].process.poll() is not None:
            del self.running[key]
        if key not in self.running:
            self.running[key] = Running(server, mode, self.pins.server, env)
            if prepare:
                prepare(self.running[key])
        return self.running[key]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for running in self.running.values():
            running.stop()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def is_reachable(port):
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True
