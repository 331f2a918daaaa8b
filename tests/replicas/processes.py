"""What is started here: servers, their store, and the programs of the clients."""

import asyncio
import contextlib
import json
import os
import socket
import time

KINDS = ["calls", "progress", "sampling", "elicitation", "subscriptions", "tasks"]
SERVER_NAME = "zcp-everything"
START_SECONDS = 20
TOLD_SECONDS = 25


class Process:
    """A child in a group of its own: it ends when it is told, not when someone presses Ctrl-C."""

    def __init__(self, log):
        self.log, self.child = log, None

    async def spawn(self, *command, **more):
        with open(self.log, "ab") as log:
            more = {"stdin": asyncio.subprocess.DEVNULL, "stdout": log, "stderr": log} | more
            self.child = await asyncio.create_subprocess_exec(*command, start_new_session=True, **more)

    def is_running(self):
        return self.child is not None and self.child.returncode is None

    async def kill(self):
        if self.is_running():
            self.child.kill()
            await self.child.wait()

    async def answers(self, port):
        """Waits until it takes connections; false when it ends instead."""
        end = time.monotonic() + START_SECONDS
        while self.is_running() and time.monotonic() < end:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return True
            await asyncio.sleep(0.02)
        return False


class Replica(Process):
    def __init__(self, name, command, log):
        super().__init__(log)
        self.name, self.command, self.port = name, command, None

    async def start(self):
        """On a new port each time: the old one may have become somebody's."""
        for _ in range(5):
            port = free_port()
            await self.spawn(*self.command, "--http", f"127.0.0.1:{port}", env=os.environ | {"RUST_LOG": "info"})
            if await self.answers(port):
                self.port = port
                return
        raise SystemExit(f"{self.name} does not start: see {self.log}")


class Redis(Process):
    async def start(self, folder):
        port = free_port()
        place = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
        await self.spawn("redis-server", *place, "--save", "", "--appendonly", "no")
        if not await self.answers(port):
            raise SystemExit(f"redis-server does not start: see {self.log}")
        return f"redis://127.0.0.1:{port}"


class Client(Process):
    """A client's program, and what it has told."""

    def __init__(self, name, command, folder):
        super().__init__(folder / f"{name}.log")
        self.name, self.command, self.told = name, command, folder / f"{name}.jsonl"
        self.counts = dict.fromkeys(KINDS, 0)
        self.failed, self.lost = [], []
        self.connected, self.done = asyncio.Event(), asyncio.Event()
        self.sessions, self.sessions_at_end = None, None
        # How its SDK is not as it was published, and why.
        self.changed = []
        self.news, self.listening = asyncio.Condition(), False
        self.heard_at, self.silent_at = 0.0, 0.0

    async def start(self, *addresses):
        pipe = asyncio.subprocess.PIPE
        await self.spawn(*self.command, self.name, *addresses, stdin=pipe, stdout=pipe, limit=1 << 20)
        self.reading = asyncio.create_task(self.read())

    def finish(self):
        """Lets it end what it has begun."""
        if self.is_running():
            self.child.stdin.close()

    async def read(self):
        with open(self.told, "w") as told:
            async for line in self.child.stdout:
                now = time.time()
                print(f"{now:.3f} {line.decode().strip()}", file=told, flush=True)
                async with self.news:
                    self.take(json.loads(line), now)
                    self.news.notify_all()
        # Whoever waits for it need not wait any longer.
        self.connected.set()
        self.done.set()

    def take(self, line, now):
        match line.pop("event"):
            case "connected":
                self.meet(**line)
                self.connected.set()
            case "ok":
                self.counts[line["kind"]] += 1
            case "failed":
                self.failed.append(line)
            case "lost":
                self.lost.append(line)
            case "heard":
                self.heard_at = now
            case "listening":
                self.listening = True
            case "pausing" | "deaf":
                self.listening, self.silent_at = False, now
            case "done":
                self.sessions_at_end = line["sessions"]

    def meet(self, server, revision, sessions, changed):
        self.sessions, self.changed = sessions, changed
        if server != SERVER_NAME:
            self.lose("calls", f"the server calls itself {server}, and is not the one to be tested")
        expected = "2025-11-25" if sessions else "2026-07-28"
        if revision != expected:
            self.lose("calls", f"they speak {revision}, and both know {expected}")

    def lose(self, kind, detail, began=None):
        now = time.time()
        self.lost.append({"kind": kind, "began": began or now, "ended": now, "detail": detail})

    async def hears(self, since):
        """Waits until a change made then was told, and notes it; unless it stops listening first."""
        try:
            async with asyncio.timeout(TOLD_SECONDS), self.news:
                await self.news.wait_for(lambda: self.heard_at > since or self.silent_at > since)
        except TimeoutError:
            self.lose("subscriptions", f"a change was not told in {TOLD_SECONDS} s to a client that listens", since)
        if self.heard_at > since:
            self.counts["subscriptions"] += 1


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
