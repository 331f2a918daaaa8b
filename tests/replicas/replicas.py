"""Replicas that are killed one after another while official clients work through a proxy.

Nothing may be lost but calls that were under way on a killed replica, and those must fail at once.
A client is `NAME COMMAND...`; the command is started with its name and the address to talk to, and
prints one JSON line for everything that happens to it.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from proxy import Proxy
from verdict import KINDS, show, verdict

SERVER_NAME = "zcp-everything"
WATCHED_SECONDS = 25
FINISH_SECONDS = 100
DOWN_SECONDS = 0.3


@dataclass
class Plan:
    """How many replicas there are of what, and how often one is killed."""

    title: str
    replicas: int
    every: float
    share: float
    options: callable


PLANS = {
    "redis": Plan("three replicas on one Redis", 3, 1.0, 1.0, lambda stage: ["--store", stage.redis]),
    "sqlite": Plan("one server on SQLite", 1, 2.0, 0.5, lambda stage: ["--data", str(stage.folder / "state.sqlite")]),
    # For whoever wants to see this test fail.
    "apart": Plan("three replicas, each with a memory of its own", 3, 1.0, 1.0, lambda stage: []),
}


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
        raise SystemExit(f"{self.name} does not start; its log is {self.log}")

    async def answers(self, port):
        end = time.monotonic() + 20
        while self.is_running() and time.monotonic() < end:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return True
            await asyncio.sleep(0.02)
        return False


class Redis(Process):
    async def start(self, folder):
        port = free_port()
        nothing_kept = ("--save", "", "--appendonly", "no")
        await self.spawn("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *nothing_kept)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return f"redis://127.0.0.1:{port}"
            await asyncio.sleep(0.05)
        raise SystemExit(f"redis-server does not start; its log is {self.log}")


class Client(Process):
    """A client's program, and what it has told."""

    def __init__(self, name, command, folder):
        super().__init__(folder / f"{name}.log")
        self.name, self.command, self.told = name, command, folder / f"{name}.jsonl"
        self.counts = dict.fromkeys(KINDS, 0)
        self.failed, self.lost = [], []
        self.connected, self.done = asyncio.Event(), asyncio.Event()
        self.sessions = self.sessions_at_end = None
        self.listening, self.news = False, asyncio.Condition()
        self.heard_at, self.silent_since = 0.0, 0.0

    async def start(self, url):
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE, "limit": 1 << 20}
        await self.spawn(*self.command, self.name, url, **pipes)
        self.reading = asyncio.create_task(self.read())

    async def read(self):
        with open(self.told, "w") as told:
            async for line in self.child.stdout:
                now = time.time()
                told.write(f"{now:.3f} {line.decode()}")
                async with self.news:
                    self.take(json.loads(line), now)
                    self.news.notify_all()
        # Whoever waits for it need not wait any longer.
        self.connected.set()
        self.done.set()

    def take(self, line, now):
        match line.pop("event"):
            case "connected":
                self.check(line)
                self.sessions = line["sessions"]
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
                self.listening, self.silent_since = False, now
            case "done":
                self.sessions_at_end = line["sessions"]

    def check(self, line):
        if line["server"] != SERVER_NAME:
            self.lose("calls", f"the server calls itself {line['server']}, so it is not the one to be tested")

    def lose(self, kind, detail, began=None):
        now = time.time()
        self.lost.append({"kind": kind, "began": began or now, "ended": now, "detail": detail})

    async def hears(self, since):
        """Waits until a change made at a time was told; none when it no longer listened."""
        async with self.news:
            try:
                async with asyncio.timeout(WATCHED_SECONDS):
                    await self.news.wait_for(lambda: self.heard_at > since or self.silent_since > since)
            except TimeoutError:
                return False
        return True if self.heard_at > since else None

    def finish(self):
        if self.is_running():
            self.child.stdin.close()


@dataclass
class Stage:
    """One store with its replicas and clients."""

    plan: Plan
    asked: argparse.Namespace
    folder: Path
    logs: Path
    redis: str = ""
    replicas: list = field(default_factory=list)
    clients: list = field(default_factory=list)
    kills: list = field(default_factory=list)

    @property
    def seconds(self):
        return self.asked.seconds * self.plan.share

    @contextlib.asynccontextmanager
    async def opened(self):
        redis, proxy = Redis(self.logs / "redis.log"), None
        try:
            if shutil.which("redis-server"):
                self.redis = await redis.start(self.folder)
            for number in range(1, self.plan.replicas + 1):
                command = [self.asked.server, *self.plan.options(self)]
                replica = Replica(f"replica-{number}", command, self.logs / f"replica-{number}.log")
                self.replicas.append(replica)
                await replica.start()
            with open(self.logs / "proxy.log", "w") as log:
                self.proxy = proxy = Proxy(self.replicas, log)
                yield
        finally:
            everyone = [*self.clients, *self.replicas, redis]
            await asyncio.gather(*(process.kill() for process in everyone))
            if proxy:
                await proxy.close()

    async def perform(self):
        await self.connect()
        say(f"  all clients are connected; for {self.seconds:.0f} s a server is killed every {self.plan.every:.0f} s")
        playing = [asyncio.create_task(part) for part in (self.kill(), self.change(), self.tell())]
        try:
            await first_trouble(playing, self.seconds)
        finally:
            for part in playing:
                part.cancel()
            await asyncio.gather(*playing, return_exceptions=True)
        await self.finish()

    async def connect(self):
        for text in self.asked.clients:
            name, *command = text.split(" ")
            client = Client(name, command, self.logs)
            self.clients.append(client)
            await client.start(await self.proxy.open(name))
        self.address = await self.proxy.open("conductor")
        for client in self.clients:
            async with asyncio.timeout(60):
                await client.connected.wait()
            if client.sessions is None:
                raise SystemExit(f"{client.name} could not connect: see {client.log}")

    async def kill(self):
        for number in range(1_000_000):
            await asyncio.sleep(self.plan.every)
            replica = self.replicas[number % len(self.replicas)]
            self.kills.append(time.time())
            await replica.kill()
            await asyncio.sleep(DOWN_SECONDS * random.random())
            await replica.start()
            # With one server, a failure is explained until it is there again.
            self.kills.append(time.time())

    async def change(self):
        """Changes what is listened to, and waits until everyone who listens was told."""
        for number in range(1, 1_000_000):
            listeners = [client for client in self.clients if client.listening]
            since = time.time()
            if not await asyncio.to_thread(trigger, self.address):
                await asyncio.sleep(0.3)
                continue
            heard = await asyncio.gather(*(client.hears(since) for client in listeners))
            for client, was_told in zip(listeners, heard):
                if was_told:
                    client.counts["subscriptions"] += 1
                elif was_told is False:
                    client.lose("subscriptions", f"change {number} was not told in {WATCHED_SECONDS} s", since)
            await asyncio.sleep(0.3)

    async def tell(self):
        began = time.monotonic()
        while True:
            await asyncio.sleep(10)
            done = sum(sum(client.counts.values()) for client in self.clients)
            failed, lost = (sum(len(getattr(client, kind)) for client in self.clients) for kind in ("failed", "lost"))
            say(f"  {time.monotonic() - began:3.0f} s: {len(self.kills) // 2} kills, {done} operations, {failed} failed in flight, {lost} lost")

    async def finish(self):
        """Lets the clients end what they have begun, and looks at their sessions once more."""
        for client in self.clients:
            client.finish()
        for client in self.clients:
            try:
                async with asyncio.timeout(FINISH_SECONDS):
                    await client.done.wait()
            except TimeoutError:
                client.lose("calls", f"it did not come to an end in {FINISH_SECONDS} s")
        for client in self.clients:
            if client.sessions_at_end is None:
                client.lose("calls", f"the program did not finish: see {client.log}")
            elif client.sessions_at_end != client.sessions:
                client.lose("calls", f"it began in sessions {client.sessions} and ended in {client.sessions_at_end}")
            await self.check_sessions(client)

    async def check_sessions(self, client):
        for session in client.sessions:
            for replica in self.replicas:
                status = await asyncio.to_thread(ping, replica.port, session)
                if status != 200:
                    client.lose("calls", f"session {session} is answered with {status} by {replica.name} at the end")


async def first_trouble(tasks, seconds):
    """Waits for the time to pass, or for one of the tasks to fail."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def trigger(url):
    """Changes the watched resource; false when that failed under way."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    tool = "test_trigger_resource_update"
    params = {"name": tool, "arguments": {}, "_meta": meta}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    status, body = post(url, headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return status == 200 and b"The resource changed." in body


def ping(port, session):
    headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
    status, body = post(f"http://127.0.0.1:{port}/mcp", headers, {"jsonrpc": "2.0", "id": "last", "method": "ping"})
    return status


def post(url, headers, message):
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"} | headers
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        return str(error), b""


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def say(words):
    print(words, flush=True)


async def play(name, asked):
    plan = PLANS[name]
    logs = asked.logs / name
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    say(f"\n{name}: {plan.title}")
    with tempfile.TemporaryDirectory(prefix="replicas-") as folder:
        stage = Stage(plan, asked, Path(folder), logs)
        async with stage.opened():
            await stage.perform()
    show(stage)
    return verdict(stage)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--client", action="append", dest="clients", required=True)
    parser.add_argument("stores", nargs="+", choices=list(PLANS))
    asked = parser.parse_args()
    this = asyncio.current_task()
    for stop in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(stop, this.cancel)
    troubles = [trouble for name in asked.stores for trouble in await play(name, asked)]
    if troubles:
        say(f"\n{len(troubles)} things went wrong; what the servers, the proxy and the clients said is in {asked.logs}")
        return 1
    say("\nnothing was lost")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("stopped")
