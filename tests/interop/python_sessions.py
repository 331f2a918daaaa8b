"""The steps with sessions of the Python SDK 1.x, which speaks the handshake revisions."""

import asyncio
import contextlib
import urllib.error
import urllib.request

import steps
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.websocket import websocket_client
from pydantic import AnyUrl, FileUrl
from steps import wire


class Sessions:
    """What all versions have. A version says which HTTP it has, and how it asks for a page."""

    Error = McpError
    not_found = -32002
    kills_servers = False

    def __init__(self, transport, target):
        self.transport, self.target = transport, target
        self.owner, self.witness = steps.Owner(), steps.Witness(target)
        self.logs, self.updates, self.changes = [], asyncio.Queue(), asyncio.Queue()
        self.session_id = lambda: None
        self.progressing = None

    def handshaking(self):
        return None  # every connection of this SDK is a session

    async def connect(self):
        self.session, opened = await self.owner.open(self.opened())
        return opened.serverInfo.name, opened.protocolVersion

    @contextlib.asynccontextmanager
    async def opened(self):
        async with self.streams() as (read, write, *session_id):
            if session_id:
                self.session_id = session_id[0]
            async with ClientSession(read, write, **self.callbacks()) as session:
                yield session, await session.initialize()

    def callbacks(self):
        return {
            "sampling_callback": self.sample,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.roots,
            "logging_callback": self.log,
            "message_handler": self.notice,
        }

    def streams(self):
        if self.transport == "ws":
            return websocket_client(self.target)
        if self.transport == "stdio":
            return stdio_client(StdioServerParameters(command=self.witness.command, args=self.witness.args))
        return self.http_client(self.target)

    async def sample(self, context, params):
        content = types.TextContent(type="text", text=steps.MODEL_SAYS)
        return types.CreateMessageResult(role="assistant", content=content, model="interop")

    async def elicit(self, context, params):
        return types.ElicitResult(action="accept", content=steps.USER_SAYS)

    async def roots(self, context):
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(steps.ROOT))])

    async def log(self, params):
        self.logs.append(params.data)

    async def notice(self, message):
        match getattr(message, "root", None):
            case types.ProgressNotification(params=params):
                self.progressing = params.progressToken
            case types.ResourceUpdatedNotification(params=params):
                self.updates.put_nowait(str(params.uri))
            case types.ToolListChangedNotification():
                self.changes.put_nowait(None)

    async def list_tools(self, cursor):
        return wire(await self.session.list_tools(**self.page(cursor)))

    async def list_resources(self, cursor):
        return wire(await self.session.list_resources(**self.page(cursor)))

    async def list_templates(self, cursor):
        return wire(await self.session.list_resource_templates(**self.page(cursor)))

    async def list_prompts(self, cursor):
        return wire(await self.session.list_prompts(**self.page(cursor)))

    async def call(self, name, arguments, progress=None):
        return wire(await self.session.call_tool(name, arguments, progress_callback=progress))

    async def call_logged(self, name, level):
        await self.session.set_logging_level(level)
        return await self.call(name, {})

    async def cancel(self, call):
        # This SDK sends nothing when a call is abandoned: the notification is the caller's,
        # and the request's id is known because it doubles as the progress token.
        params = types.CancelledNotificationParams(requestId=self.progressing)
        cancelled = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(types.ClientNotification(cancelled))
        call.cancel()
        await asyncio.wait({call})

    async def read(self, uri):
        return wire(await self.session.read_resource(AnyUrl(uri)))["contents"]

    async def get_prompt(self, name, arguments):
        return wire(await self.session.get_prompt(name, arguments))

    async def complete(self, prompt, argument, value):
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        return wire(await self.session.complete(reference, {"name": argument, "value": value}))

    @contextlib.asynccontextmanager
    async def watch_resource(self, uri):
        await self.session.subscribe_resource(AnyUrl(uri))
        yield self.updates.get
        await self.session.unsubscribe_resource(AnyUrl(uri))

    @contextlib.asynccontextmanager
    async def watch_tools(self):
        yield self.changes.get

    async def close(self):
        session = self.session_id()
        await self.owner.close()
        if self.transport == "stdio" and self.kills_servers:
            return "this version of the SDK kills its server"
        if self.transport == "stdio":
            status = await self.witness.status()
            assert status == "0", f"the server's exit status: {status}"
            return "the server exited by itself"
        if session:
            status = await asyncio.to_thread(ask_in, self.target, session, self.revision)
            assert status == 404, f"the session was closed and still answers with {status}"
            return "the session is gone"


def ask_in(url, session, revision):
    """The status of a request made in a session."""
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-session-id": session,
        "mcp-protocol-version": revision,
    }
    body = b'{"jsonrpc":"2.0","id":"after","method":"ping"}'
    try:
        return urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=5).status
    except urllib.error.HTTPError as error:
        return error.code

