"""Reaches servers of others with the `zcp` command, over stdio and HTTP, and looks at what it shows."""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = 90
OLD, NEW = "2025-11-25", "2026-07-28"


@dataclasses.dataclass
class Server:
    """How a server is started, what it speaks, and what is expected of it."""

    name: str
    # What it says it is called: that no other was reached.
    called: str
    command: list
    revision: str
    # Each: words after `zcp <command> SERVER`, the exit code, and a part of what is shown.
    steps: list
    # The path of its URL, if it is to be reached by one; its port follows the command.
    path: str | None = None
    env: dict = dataclasses.field(default_factory=dict)


def step(*words, shows="", code=0):
    return words, code, shows


def servers(tools, node, folder):
    npm = tools / "servers-npm" / "node_modules"
    published = lambda name: [node, str(npm / ".bin" / f"mcp-server-{name}")]  # noqa: E731
    small = [
        step("call", "add", "a=1", "b=2", shows="3"),
        # Some SDKs tell a client why, others only their log.
        step("call", "fail", code=3, shows="fail"),
        step("call", "no_such_tool", code=(3, 4)),
        step("read", "small://text", shows="some text"),
        step("prompt", "greet", "name=Ann", shows="Greet Ann."),
    ]
    everything = [
        step("call", "echo", "message=hello", shows="Echo: hello"),
        step("call", "get-sum", "a=1", "b=2", shows="3"),
        step("list", "prompts", shows="prompt"),
        step("list", "resources", shows="resource"),
    ]
    found = [
        Server("time", "mcp-time", [str(tools / "servers/bin/mcp-server-time")], NEW, [
            step("call", "get_current_time", "timezone=UTC", shows='"timezone": "UTC"'),
            step("call", "get_current_time", "timezone=Nowhere/Land", code=3),
        ]),
        Server("git", "mcp-git", [str(tools / "servers/bin/mcp-server-git")], NEW, [
            step("call", "git_log", f"repo_path={ROOT}", "max_count=1", shows="Commit"),
        ]),
        Server("filesystem", "secure-filesystem-server",
               [*published("filesystem"), str(folder)], OLD, [
            step("call", "write_file", f"path={folder}/a.txt", "content=hello", shows="wrote"),
            step("call", "read_text_file", f"path={folder}/a.txt", shows="hello"),
        ]),
        Server("memory", "memory-server", published("memory"), OLD, [
            step("call", "create_entities", "--args", json.dumps({"entities": [
                {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}]}),
                shows="Ann"),
            step("call", "read_graph", shows="likes tea"),
        ], env={"MEMORY_FILE_PATH": str(folder / "memory.json")}),
        Server("playwright", "Playwright",
               [node, str(npm / "@playwright/mcp/cli.js"), "--headless"], OLD, [
            step("list", "tools", shows="browser_navigate"),
        ]),
    ]
    for name, word, revision, path in (
        ("everything", "stdio", OLD, None),
        ("everything http", "streamableHttp", OLD, "/mcp"),
        ("everything sse", "sse", "2024-11-05", "/sse"),
    ):
        command = [*published("everything"), word]
        found.append(Server(name, "mcp-servers/everything", command, revision, everything, path))
    script = str(HERE / "small_server.py")
    python = lambda kit: [str(tools / kit / "bin" / "python"), script]  # noqa: E731
    typescript = lambda kit: [node, str(tools / kit / "small_server.mjs")]  # noqa: E731
    for kit, program, revision in (
        ("python-v1", python("python-v1"), OLD),
        ("python-v2", python("python-v2"), NEW),
        ("fastmcp", python("fastmcp"), NEW),
        ("ts-v1", typescript("ts-v1"), OLD),
        ("ts-v2", typescript("ts-v2"), NEW),
        ("rmcp", [str(ROOT / "target/interop-rmcp/debug/small_server")], NEW),
    ):
        called = f"small-{kit}"
        found.append(Server(kit, called, [*program, "stdio"], revision, small))
        found.append(Server(f"{kit} http", called, [*program, "http"], revision, small, "/mcp"))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zcp", required=True)
    parser.add_argument("--tools", required=True, type=pathlib.Path)
    parser.add_argument("--node", required=True)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    troubles = []
    with tempfile.TemporaryDirectory() as folder:
        known = servers(options.tools, options.node, pathlib.Path(folder).resolve())
        unknown = set(options.names) - {server.name for server in known}
        if unknown:
            names = ", ".join(server.name for server in known)
            sys.exit(f"no server is called {', '.join(unknown)}; there are: {names}")
        print(f"{'server':18} {'revision':10} {'steps':>6} {'seconds':>8}")
        for server in known:
            if options.names and server.name not in options.names:
                continue
            started = time.monotonic()
            found = reach(options.zcp, server)
            troubles += found
            steps = len(server.steps) + 1
            seconds = time.monotonic() - started
            mark = "ok" if not found else "FAILED"
            print(f"{server.name:18} {server.revision:10} {steps:6} {seconds:8.1f}  {mark}", flush=True)
    for trouble in troubles:
        print(f"\n{trouble}")
    print(f"\n{len(troubles)} failed" if troubles else "all servers were reached")
    return 1 if troubles else 0


def reach(zcp, server):
    with started(server) as target:
        found = [ping(zcp, target, server)]
        found += [take(zcp, target, server, one) for one in server.steps]
    return [trouble for trouble in found if trouble]


@contextlib.contextmanager
def started(server):
    """What the server is called on zcp's command line; a server with a URL runs meanwhile."""
    if server.path is None:
        yield shlex.join(server.command)
        return
    port = free_port()
    command = server.command if "everything" in server.name else [*server.command, str(port)]
    env = {**os.environ, **server.env, "PORT": str(port)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(port, process, server)
        yield f"http://127.0.0.1:{port}{server.path}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process, server):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)
    sys.exit(f"{server.name} does not listen")


def ping(zcp, target, server):
    shown = run(zcp, target, server, ("ping", "--json"))
    with contextlib.suppress(ValueError, KeyError):
        said = json.loads(shown.stdout)
        if (said["server"]["name"], said["revision"]) == (server.called, server.revision):
            return None
    wanted = f"it was to be {server.called} and speak {server.revision}"
    return f"{server.name}: {wanted}\n{shown.stdout}{shown.stderr}"


def take(zcp, target, server, one):
    words, code, shows = one
    shown = run(zcp, target, server, words)
    codes = code if isinstance(code, tuple) else (code,)
    said = shown.stdout + shown.stderr
    if shown.returncode in codes and shows in said:
        return None
    wanted = f"exit code {code}" + (f" and `{shows}`" if shows else "")
    return f"{server.name}: {' '.join(words)}: wanted {wanted}, not {shown.returncode}\n{said}"


def run(zcp, target, server, words):
    command, *rest = words
    env = [f"--env={name}={value}" for name, value in server.env.items()]
    line = [zcp, command, target, *env, *rest]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)


sys.exit(main())
