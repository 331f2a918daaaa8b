"""The steps with FastMCP's client, which discovers what the server speaks."""

import asyncio
import contextlib

import fastmcp
import mcp_types as types
import steps
from fastmcp.client.transports import StdioTransport
from mcp import MCPError
from mcp.client.subscriptions import ResourceUpdated, listen
from steps import wire


class Client:
    Error = MCPError
    revision = "2026-07-28"
    not_found = -32602

    def __init__(self, transport, target, mode="auto"):
        self.transport, self.target, self.mode = transport, target, mode
        self.witness = steps.Witness(target)
        self.logs = []

    def handshaking(self):
        """The same client in a session: the revisions before 2026-07-28."""
        client = Client(self.transport, self.target, mode="legacy")
        client.revision = "2025-11-25"
        return client

    async def connect(self):
        server = self.target
        if self.transport == "stdio":
            server = StdioTransport(command=self.witness.command, args=self.witness.args)
        self.client = fastmcp.Client(
            server,
            mode=self.mode,
            roots=[steps.ROOT],
            sampling_handler=self.sample,
            elicitation_handler=self.elicit,
            log_handler=self.log,
        )
        await self.client.__aenter__()
        return self.client.server_info and self.client.server_info.name, self.client.protocol_version

    async def sample(self, messages, params, context):
        return steps.MODEL_SAYS

    async def elicit(self, message, response_type, params, context):
        return steps.USER_SAYS

    async def log(self, message):
        self.logs.append(message.data)

    async def list_tools(self, cursor):
        return wire(await self.client.list_tools_mcp(cursor=cursor))

    async def list_resources(self, cursor):
        return wire(await self.client.list_resources_mcp(cursor=cursor))

    async def list_templates(self, cursor):
        return wire(await self.client.list_resource_templates_mcp(cursor=cursor))

    async def list_prompts(self, cursor):
        return wire(await self.client.list_prompts_mcp(cursor=cursor))

    async def call(self, name, arguments, progress=None):
        return wire(await self.client.call_tool_mcp(name, arguments, progress_handler=progress))

    async def call_logged(self, name, level):
        return wire(await self.client.call_tool_mcp(name, {}, meta={"io.modelcontextprotocol/logLevel": level}))

    async def cancel(self, call):
        call.cancel()
        await asyncio.wait({call})

    async def read(self, uri):
        return wire(await self.client.read_resource_mcp(uri))["contents"]

    async def get_prompt(self, name, arguments):
        return wire(await self.client.get_prompt_mcp(name, arguments))

    async def complete(self, prompt, argument, value):
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        return wire(await self.client.complete_mcp(reference, {"name": argument, "value": value}))

    # FastMCP has no listening of its own; its `session` is the SDK's, which has.
    @contextlib.asynccontextmanager
    async def watch_resource(self, uri):
        async with listen(self.client.session, resource_subscriptions=[uri]) as events:
            assert events.honored.resource_subscriptions == [uri], f"the server honours only {events.honored}"

            async def updated():
                event = await anext(events)
                assert isinstance(event, ResourceUpdated), event
                return event.uri

            yield updated

    @contextlib.asynccontextmanager
    async def watch_tools(self):
        async with listen(self.client.session, tools_list_changed=True) as events:
            assert events.honored.tools_list_changed, f"the server honours only {events.honored}"
            yield lambda: anext(events)

    async def close(self):
        await self.client.close()
        if self.transport == "stdio":
            status = await self.witness.status()
            assert status == "0", f"the server's exit status: {status}"
            return "the server exited by itself"


if __name__ == "__main__":
    steps.main(Client)
