"""A proxy in front of replicas: every HTTP request goes to any one of them.

An answer is passed on as it comes, so streams stream; when the replica dies in the middle of it,
the client's connection is closed. A request that reached a replica is never made again elsewhere.
"""

import asyncio
import json
import random
import time
from dataclasses import dataclass

GONE = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
PIECE = 65536


class Proxy:
    """`replicas` have a `name` and, while they can be reached, a `port`."""

    def __init__(self, replicas, log):
        self.replicas, self.log = replicas, log
        self.servers, self.exchanges = [], set()
        # When an exchange of a client was cut short, by the client's name.
        self.cuts = {}

    async def open(self, client):
        """An address of its own for a client, so that what happens to it can be told apart."""
        self.cuts[client] = []

        async def serve(reader, writer):
            task = asyncio.current_task()
            self.exchanges.add(task)
            try:
                await self.exchange(client, reader, writer)
            except (OSError, asyncio.IncompleteReadError):
                pass  # The client left.
            finally:
                self.exchanges.discard(task)
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"

    async def close(self):
        for server in self.servers:
            server.close()
        for exchange in self.exchanges:
            exchange.cancel()
        await asyncio.gather(*self.exchanges, return_exceptions=True)

    async def exchange(self, client, reader, writer):
        request = await Request.read(reader)
        if request is None:
            return
        began = time.time()
        replica, upstream = await self.connect()
        if upstream is None:
            self.cuts[client].append(began)
            self.note(client, "nobody", began, request, "503")
            writer.write(GONE)
            await writer.drain()
            return
        answer = Answer()
        left = await relay(request, upstream, answer, reader, writer)
        if not left and not answer.is_whole():
            self.cuts[client].append(time.time())
        end = "the client left" if left else "" if answer.is_whole() else "CUT SHORT"
        self.note(client, replica, began, request, f"{answer.status()} {end}")

    async def connect(self):
        """A connection to any replica that takes one."""
        for replica in random.sample(self.replicas, len(self.replicas)):
            if replica.port is None:
                continue
            try:
                return replica.name, await asyncio.open_connection("127.0.0.1", replica.port)
            except OSError:
                continue  # It has just died: another one may live.
        return None, None

    def note(self, client, replica, began, request, end):
        took = time.time() - began
        line = f"{began:.3f} {took:7.3f} s  {client:<17} {replica:<9} {request.about()} -> {end}"
        print(line.rstrip(), file=self.log, flush=True)


async def relay(request, upstream, answer, reader, writer):
    """One request and its answer; true when the client left before the end."""
    source, sink = upstream
    leaving = asyncio.create_task(reader.read(1))
    answering = asyncio.create_task(pass_on(request, source, sink, answer, writer))
    try:
        await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
        return not answering.done() and not answer.is_whole()
    finally:
        for task in (leaving, answering):
            task.cancel()
        await asyncio.gather(leaving, answering, return_exceptions=True)
        sink.close()


async def pass_on(request, source, sink, answer, writer):
    try:
        sink.write(request.bytes)
        await sink.drain()
        while piece := await source.read(PIECE):
            answer.add(piece)
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass  # Whatever is missing then, the answer knows.


@dataclass
class Request:
    bytes: bytes
    line: str
    headers: dict
    body: bytes

    @classmethod
    async def read(cls, reader):
        """The next request of a connection, made the last one on its way to a replica."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        line, headers = parse(head)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        headers["connection"] = "close"
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return cls(f"{line}\r\n{fields}\r\n".encode("latin-1") + body, line, headers, body)

    def about(self):
        """What is asked, in a few words for the log."""
        words = [self.line.split(" ")[0]]
        if self.body:
            message = json.loads(self.body)
            words.append(message.get("method", "answer"))
            words.append(str(message.get("params", {}).get("name", "")))
            words.append(f"id={message.get('id')}")
        for name in ("mcp-session-id", "last-event-id"):
            if name in self.headers:
                words.append(f"{name}={self.headers[name]}")
        return " ".join(word for word in words if word)


class Answer:
    """An answer as far as it has come: its head, and whether its body is whole."""

    def __init__(self):
        self.head, self.length, self.tail = b"", 0, b""

    def add(self, piece):
        if b"\r\n\r\n" not in self.head:
            self.head += piece
            if b"\r\n\r\n" not in self.head:
                return
            self.head, piece = self.head.split(b"\r\n\r\n", 1)
            self.head += b"\r\n\r\n"
        self.length += len(piece)
        self.tail = (self.tail + piece)[-5:]

    def is_whole(self):
        if b"\r\n\r\n" not in self.head:
            return False
        _, headers = parse(self.head)
        if headers.get("transfer-encoding") == "chunked":
            return self.tail == b"0\r\n\r\n"
        return self.length >= int(headers.get("content-length", 0))

    def status(self):
        return self.head.split(b" ")[1].decode() if self.head else "nothing"


def parse(head):
    line, *fields = head.decode("latin-1").strip("\r\n").split("\r\n")
    pairs = (field.split(":", 1) for field in fields)
    return line, {name.strip().lower(): value.strip() for name, value in pairs}
