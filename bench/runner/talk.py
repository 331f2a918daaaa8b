"""A client on stdio that does little beside waiting, and the server it starts."""

import ctypes
import json
import os
import pathlib
import select
import signal
import subprocess
import time

REVISION = "2025-11-25"
CLIENT = {"name": "bench", "version": "1.0"}
# Seconds for one answer, and for a server to end by itself.
PATIENCE = 900
END_PATIENCE = 10
PR_SET_CHILD_SUBREAPER = 36


class Wrong(RuntimeError):
    """An answer that is not what was asked for, or none."""


def adopt_orphans():
    """What servers leave behind becomes ours, so that it is counted and ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Talk:
    """A server, from its start until it is left."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        self.reads, self.writes = self.process.stdout.fileno(), self.process.stdin.fileno()
        self.buffer, self.last = b"", 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(END_PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        end_session(self.process.pid)
        self.process.stdout.close()
        self.process.wait()
        reap()

    def open(self):
        """Shakes hands, and gives what the server said of itself."""
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": CLIENT}
        result = self.ask("initialize", params)
        if result.get("protocolVersion") != REVISION:
            raise Wrong(f"it speaks {result.get('protocolVersion')}, not {REVISION}")
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result.get("serverInfo", {})

    def tools(self):
        """All tools, page after page."""
        found, cursor = [], None
        while True:
            page = self.ask("tools/list", {"cursor": cursor} if cursor else {})
            found += page.get("tools", [])
            cursor = page.get("nextCursor")
            if not cursor:
                return found

    def ask(self, method, params):
        self.last += 1
        self.write({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        answer = parsed(self.answer())
        if answer.get("id") != self.last or "result" not in answer:
            raise Wrong(f"{method} is answered with {json.dumps(answer)[:200]}")
        return answer["result"]

    def call(self, tool, count, together):
        """So many calls, some of them at a time: seconds of all, microseconds of each."""
        first = self.last + 1
        self.last += count
        lines = {number: call_line(number, tool) for number in range(first, first + count)}
        began, began_each, answers = time.perf_counter(), {}, []
        waiting = iter(lines.items())
        for _ in range(min(together, count)):
            self.send_next(waiting, began_each)
        while len(answers) < count:
            line = self.answer()
            answers.append((time.perf_counter(), line))
            self.send_next(waiting, began_each)
        seconds = answers[-1][0] - began
        micros = [(at - began_each.pop(checked(line))) * 1e6 for at, line in answers]
        return seconds, micros

    def send_next(self, waiting, began_each):
        number, line = next(waiting, (None, None))
        if line:
            began_each[number] = time.perf_counter()
            self.write_line(line)

    def write(self, message):
        self.write_line(json.dumps(message).encode() + b"\n")

    def write_line(self, line):
        while line:
            line = line[os.write(self.writes, line) :]

    def answer(self):
        """The next line that is an answer."""
        while True:
            line, found, rest = self.buffer.partition(b"\n")
            if not found:
                self.read_more()
                continue
            self.buffer = rest
            if b'"method"' not in line:
                return line
            # It may only look like a notification.
            if "method" not in parsed(line):
                return line

    def read_more(self):
        if not select.select([self.reads], [], [], PATIENCE)[0]:
            raise Wrong(f"no answer within {PATIENCE} s")
        more = os.read(self.reads, 1 << 20)
        if not more:
            raise Wrong("the server ended before it answered")
        self.buffer += more


def call_line(number, tool):
    params = {"name": tool, "arguments": {}}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(message).encode() + b"\n"


def parsed(line):
    try:
        return json.loads(line)
    except ValueError as why:
        raise Wrong(f"this is no message: {line[:200]!r}") from why


def checked(line):
    """The id of an answer that says hello."""
    answer = parsed(line)
    result = answer.get("result", {})
    content = result.get("content") or [{}]
    if result.get("isError") or content[0].get("text", "").strip() != "hello":
        raise Wrong(f"a call is answered with {line[:200].decode(errors='replace')}")
    return answer["id"]


def end_session(session):
    """Ends what is left of a server: whatever it started, unless that has a session of its own."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, IndexError):
            continue


def reap():
    """Waits for orphans, which then count as ours."""
    deadline = time.monotonic() + END_PATIENCE
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
        except ChildProcessError:
            return
