"""Replicas that are killed one after another while official clients work through a proxy.

Nothing may be lost but calls that were under way on a killed replica, and those must fail in time.
A client is `NAME COMMAND...`; the command is started with the name, an address for calls and one to
listen at, and prints one JSON line for everything that happens to it.
"""

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import verdict
from processes import Client, Redis, Replica
from proxy import Proxy

CONNECT_SECONDS = 60
FINISH_SECONDS = 100
DOWN_SECONDS = 0.3


@dataclass
class Plan:
    """How many replicas of what there are, how often one is killed, and for what part of the time."""

    title: str
    replicas: int
    every: float
    part: float
    options: Callable


PLANS = {
    "redis": Plan("three replicas on one Redis", 3, 1, 1, lambda stage: ["--store", stage.redis]),
    "sqlite": Plan("one server on SQLite", 1, 2, 0.5, lambda stage: ["--data", str(stage.folder / "state.sqlite")]),
    # For whoever wants to see this test fail.
    "apart": Plan("three replicas with nothing in common", 3, 1, 1, lambda stage: []),
}


@dataclass
class Stage:
    """One store with its replicas and clients."""

    name: str
    asked: argparse.Namespace
    folder: Path
    logs: Path
    redis: str = ""
    replicas: list = field(default_factory=list)
    clients: list = field(default_factory=list)
    # When each kill was.
    kills: list = field(default_factory=list)

    @property
    def plan(self):
        return PLANS[self.name]

    @property
    def seconds(self):
        return self.asked.seconds * self.plan.part

    @contextlib.asynccontextmanager
    async def opened(self):
        redis = Redis(self.logs / "redis.log")
        log = open(self.logs / "proxy.log", "w")
        self.proxy = Proxy(self.replicas, log)
        try:
            if self.name == "redis":
                self.redis = await redis.start(self.folder)
            for number in range(1, self.plan.replicas + 1):
                command = [self.asked.server, *self.plan.options(self)]
                replica = Replica(f"replica-{number}", command, self.logs / f"replica-{number}.log")
                self.replicas.append(replica)
                await replica.start()
            yield
        finally:
            everyone = [*self.clients, *self.replicas, redis]
            await asyncio.gather(*(process.kill() for process in everyone))
            await self.proxy.close()
            log.close()

    async def perform(self):
        await self.connect()
        connected = sum(client.sessions is not None for client in self.clients)
        say(f"  {connected} clients are connected")
        say(f"  for {self.seconds:.0f} s a server is killed every {self.plan.every} s")
        playing = [asyncio.create_task(part) for part in (self.kill(), self.change(), self.tell())]
        try:
            # None of them ends but by an exception.
            ended, _ = await asyncio.wait(playing, timeout=self.seconds, return_when=asyncio.FIRST_EXCEPTION)
            for part in ended:
                part.result()
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
            await client.start(await self.proxy.open(name), await self.proxy.open(f"{name}/listens"))
        self.address = await self.proxy.open("change")
        for client in self.clients:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    await client.connected.wait()
            if client.sessions is None:
                client.lose("calls", f"it could not connect: see {client.log}")

    async def kill(self):
        began = time.monotonic()
        while True:
            await asyncio.sleep(began + (len(self.kills) + 1) * self.plan.every - time.monotonic())
            replica = self.replicas[len(self.kills) % len(self.replicas)]
            self.kills.append(time.time())
            await replica.kill()
            await asyncio.sleep(random.uniform(0, DOWN_SECONDS))
            await replica.start()

    async def change(self):
        """Changes what is listened to, and waits until everyone who listens was told."""
        while True:
            await asyncio.sleep(0.3)
            since, listeners = time.time(), [client for client in self.clients if client.listening]
            # One that failed may have been made, or not.
            if await asyncio.to_thread(make_change, self.address):
                await asyncio.gather(*(client.hears(since) for client in listeners))

    async def tell(self):
        began = time.monotonic()
        while True:
            await asyncio.sleep(10)
            done = sum(sum(client.counts.values()) for client in self.clients)
            failed = sum(len(client.failed) for client in self.clients)
            lost = sum(len(client.lost) for client in self.clients)
            so_far = f"{len(self.kills)} kills, {done} operations, {failed} failed in flight, {lost} lost"
            say(f"  {time.monotonic() - began:3.0f} s: {so_far}")

    async def finish(self):
        """Lets the clients end what they have begun, and looks at their sessions once more."""
        say("  no more kills; the clients finish what they have begun")
        for client in self.clients:
            client.finish()
        end = time.monotonic() + FINISH_SECONDS
        for client in self.clients:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(end - time.monotonic()):
                    await client.done.wait()
            if client.sessions is None:
                continue
            if client.sessions_at_end is None:
                client.lose("calls", f"the program did not come to its end in {FINISH_SECONDS} s: see {client.log}")
            elif client.sessions_at_end != client.sessions:
                client.lose("calls", f"it began in sessions {client.sessions} and ended in {client.sessions_at_end}")
            await self.check_sessions(client)

    async def check_sessions(self, client):
        for session in client.sessions:
            for replica in self.replicas:
                status = await asyncio.to_thread(ping, replica.port, session)
                if status != 200:
                    client.lose("calls", f"at the end {replica.name} answers {status} in session {session}")


def make_change(url):
    """Changes the watched resource; false when that failed under way."""
    tool = "test_trigger_resource_update"
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": tool, "arguments": {}, "_meta": meta}
    status, body = post(url, headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return status == 200 and b"The resource changed." in body


def ping(port, session):
    """The status of a request made in a session."""
    headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
    status, _ = post(f"http://127.0.0.1:{port}/mcp", headers, {"jsonrpc": "2.0", "id": "last", "method": "ping"})
    return status


def post(url, headers, message):
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"} | headers
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""
    except OSError as error:
        return str(error), b""


def say(words):
    print(words, flush=True)


async def play(name, asked):
    """Everything for one store; gives what is against the rule."""
    logs = asked.logs / name
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    say(f"\n{name}: {PLANS[name].title}")
    with tempfile.TemporaryDirectory(prefix="replicas-") as folder:
        stage = Stage(name, asked, Path(folder), logs)
        async with stage.opened():
            await stage.perform()
    verdict.show_table(stage)
    return verdict.troubles(stage)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--client", action="append", dest="clients", required=True)
    parser.add_argument("stores", nargs="+", choices=list(PLANS))
    asked = parser.parse_args()
    main_task = asyncio.current_task()
    for stop in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(stop, main_task.cancel)
    wrong = {name: await play(name, asked) for name in asked.stores}
    return verdict.say_at_last(wrong, asked.logs)


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("stopped")
