"""The script with the Python SDK 1.x: sessions of 2025-11-25, one for calls and one that listens."""

import asyncio
import contextlib
import warnings

import httpx
import script
from mcp import ClientSession, McpError, types
from mcp.client import streamable_http
from mcp.client.streamable_http import StreamableHTTPTransport, streamable_http_client
from pydantic import AnyUrl
from script import wire

# The SDK calls its tasks deprecated whenever they are used.
warnings.simplefilter("ignore", DeprecationWarning)
streamable_http.MAX_RECONNECTION_ATTEMPTS = 1000


class Client:
    changed = [
        "a constant: the SDK gives a stream up for good when it has broken twice, and has no option for that",
        "a new connection gets the session of the last one, and counts its requests on:"
        " one failed request ends the connection, and the SDK can only begin another session then",
    ]

    def __init__(self, name, calls, listening):
        self.name = name
        self.calls, self.listener = Session(calls), Session(listening)

    async def connect(self):
        await self.listener.link.ready()
        await self.calls.link.ready()
        return self.calls.server.serverInfo.name, self.calls.server.protocolVersion

    def sessions(self):
        return [self.calls.id, self.listener.id]

    def is_lost(self, error):
        if not isinstance(error, McpError):
            return False
        # The SDK's words for 404.
        return error.error.message == "Session terminated" or error.error.code in script.REFUSALS

    async def call(self, name, arguments, progress):
        call = lambda session: session.call_tool(name, arguments, progress_callback=progress)
        return wire(await self.calls.link.use(call))

    async def start_task(self, name, arguments):
        call = lambda session: session.experimental.call_tool_as_task(name, arguments, ttl=300_000)
        return (await self.calls.link.use(call)).task.taskId

    async def task_status(self, task):
        state = await self.calls.link.use(lambda session: session.experimental.get_task(task))
        return state.status, state.statusMessage

    async def task_result(self, task):
        call = lambda session: session.experimental.get_task_result(task, types.CallToolResult)
        return wire(await self.calls.link.use(call))

    async def task_answered(self, task):
        with contextlib.suppress(McpError):
            await self.task_result(task)

    async def listen(self, listening, pausing, heard):
        uri, link = AnyUrl(script.WATCHED), self.listener.link
        self.listener.heard = heard
        while True:
            await link.use(lambda session: session.subscribe_resource(uri))
            await link.use(lambda _: self.listener.streaming.wait())
            listening()
            for _ in range(3):
                await link.use(lambda _: self.listener.updates.get())
            # A wish that is taken back and made again may be heard by another replica.
            pausing()
            await link.use(lambda session: session.unsubscribe_resource(uri))


class Session:
    """One session of the protocol, on as many connections as it takes."""

    def __init__(self, url):
        self.url = url
        self.link = script.Link(self.opened)
        self.id, self.next_request = None, 0
        self.updates, self.streaming = asyncio.Queue(), asyncio.Event()
        self.heard = lambda uri: None

    @contextlib.asynccontextmanager
    async def opened(self):
        self.streaming.clear()
        hooks = {"response": [self.note_stream]}
        async with httpx.AsyncClient(timeout=httpx.Timeout(30, read=300), event_hooks=hooks) as http:
            async with self.streams(http) as (read, write, session_id), self.session(read, write) as session:
                if self.id is None:
                    self.server = await session.initialize()
                    self.id = session_id()
                else:
                    await self.go_on(session)
                try:
                    yield session
                finally:
                    self.next_request = session._request_id

    def streams(self, http):
        # A new transport takes no session id: it is made with it here.
        streamable_http.StreamableHTTPTransport = self.transport
        # The SDK would end the session with the transport.
        return streamable_http_client(self.url, http_client=http, terminate_on_close=False)

    def transport(self, url):
        transport = StreamableHTTPTransport(url)
        transport.session_id = self.id
        transport.protocol_version = self.id and self.server.protocolVersion
        return transport

    async def go_on(self, session):
        # An id names one request in a session, so the next connection counts on.
        session._request_id = self.next_request
        # The SDK opens its stream of events when it sends this.
        await session.send_notification(types.ClientNotification(types.InitializedNotification()))

    def session(self, read, write):
        return ClientSession(
            read,
            write,
            sampling_callback=self.sample,
            elicitation_callback=self.elicit,
            message_handler=self.notice,
        )

    async def note_stream(self, response):
        if response.request.method == "GET" and response.status_code == 200:
            self.streaming.set()

    async def sample(self, context, params):
        words = script.sampled(params.messages[0].content.text)
        content = types.TextContent(type="text", text=words)
        return types.CreateMessageResult(role="assistant", content=content, model="replicas")

    async def elicit(self, context, params):
        content = script.form(params.message, params.requestedSchema)
        return types.ElicitResult(action="accept", content=content)

    async def notice(self, message):
        match getattr(message, "root", None):
            case types.ResourceUpdatedNotification(params=params):
                self.heard(str(params.uri))
                self.updates.put_nowait(None)


if __name__ == "__main__":
    script.main(Client)
