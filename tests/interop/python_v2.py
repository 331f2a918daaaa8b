"""The steps with the Python SDK 2.x, which discovers what the server speaks."""

import asyncio
import contextlib

import mcp_types as types
import steps
from mcp import Client as Mcp
from mcp import MCPError, StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated
from steps import wire


class Client:
    Error = MCPError
    revision = "2026-07-28"
    not_found = -32602

    def __init__(self, transport, target, mode="auto"):
        self.transport, self.target, self.mode = transport, target, mode
        self.owner, self.witness = steps.Owner(), steps.Witness(target)
        self.logs = []

    def handshaking(self):
        """The same client in a session: the revisions before 2026-07-28."""
        client = Client(self.transport, self.target, mode="legacy")
        client.revision = "2025-11-25"
        return client

    async def connect(self):
        server = self.target
        if self.transport == "stdio":
            server = StdioServerParameters(command=self.witness.command, args=self.witness.args)
        self.mcp = await self.owner.open(Mcp(server, mode=self.mode, **self.callbacks()))
        return self.mcp.server_info and self.mcp.server_info.name, self.mcp.protocol_version

    def callbacks(self):
        return {
            "sampling_callback": self.sample,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.roots,
            "logging_callback": self.log,
        }

    async def sample(self, context, params):
        content = types.TextContent(type="text", text=steps.MODEL_SAYS)
        return types.CreateMessageResult(role="assistant", content=content, model="interop")

    async def elicit(self, context, params):
        return types.ElicitResult(action="accept", content=steps.USER_SAYS)

    async def roots(self, context):
        return types.ListRootsResult(roots=[types.Root(uri=steps.ROOT)])

    async def log(self, params):
        self.logs.append(params.data)

    async def list_tools(self, cursor):
        return wire(await self.mcp.list_tools(cursor=cursor))

    async def list_resources(self, cursor):
        return wire(await self.mcp.list_resources(cursor=cursor))

    async def list_templates(self, cursor):
        return wire(await self.mcp.list_resource_templates(cursor=cursor))

    async def list_prompts(self, cursor):
        return wire(await self.mcp.list_prompts(cursor=cursor))

    async def call(self, name, arguments, progress=None):
        return wire(await self.mcp.call_tool(name, arguments, progress_callback=progress))

    async def call_logged(self, name, level):
        return wire(await self.mcp.call_tool(name, {}, meta={"io.modelcontextprotocol/logLevel": level}))

    async def cancel(self, call):
        call.cancel()
        await asyncio.wait({call})

    async def read(self, uri):
        return wire(await self.mcp.read_resource(uri))["contents"]

    async def get_prompt(self, name, arguments):
        return wire(await self.mcp.get_prompt(name, arguments))

    async def complete(self, prompt, argument, value):
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        return wire(await self.mcp.complete(reference, {"name": argument, "value": value}))

    @contextlib.asynccontextmanager
    async def watch_resource(self, uri):
        async with self.mcp.listen(resource_subscriptions=[uri]) as events:
            assert events.honored.resource_subscriptions == [uri], f"the server honours only {events.honored}"

            async def updated():
                event = await anext(events)
                assert isinstance(event, ResourceUpdated), event
                return event.uri

            yield updated

    @contextlib.asynccontextmanager
    async def watch_tools(self):
        async with self.mcp.listen(tools_list_changed=True) as events:
            assert events.honored.tools_list_changed, f"the server honours only {events.honored}"
            yield lambda: anext(events)

    async def close(self):
        await self.owner.close()
        if self.transport == "stdio":
            status = await self.witness.status()
            assert status == "0", f"the server's exit status: {status}"
            return "the server exited by itself"


if __name__ == "__main__":
    steps.main(Client)
