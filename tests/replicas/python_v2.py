"""The script with the Python SDK 2.x: no sessions, revision 2026-07-28."""

import mcp_types as types
import script
from mcp import Client as Mcp
from mcp import MCPError
from mcp.client.subscriptions import ResourceUpdated
from script import wire


class Client:
    def __init__(self, name, calls, listening):
        self.name = name
        # One failed request ends the SDK's whole transport: listening has one of its own.
        self.calls, self.listener = self.link(calls), self.link(listening)

    def link(self, url):
        return script.Link(lambda: Mcp(url, sampling_callback=self.sample, elicitation_callback=self.elicit))

    async def connect(self):
        _, mcp = await self.calls.ready()
        return mcp.server_info and mcp.server_info.name, mcp.protocol_version

    def sessions(self):
        return []

    def is_lost(self, error):
        return isinstance(error, MCPError) and error.error.code in script.REFUSALS

    async def sample(self, context, params):
        words = script.sampled(params.messages[0].content.text)
        content = types.TextContent(type="text", text=words)
        return types.CreateMessageResult(role="assistant", content=content, model="replicas")

    async def elicit(self, context, params):
        content = script.form(params.message, params.requested_schema)
        return types.ElicitResult(action="accept", content=content)

    async def call(self, name, arguments, progress):
        call = lambda mcp: mcp.call_tool(name, arguments, progress_callback=progress)
        return wire(await self.calls.use(call))

    async def listen(self, listening, pausing, heard):
        await self.listener.use(lambda mcp: self.follow(mcp, listening, heard))

    async def follow(self, mcp, listening, heard):
        async with mcp.listen(resource_subscriptions=[script.WATCHED]) as events:
            honored = events.honored.resource_subscriptions
            assert honored == [script.WATCHED], f"the server honours only {honored}"
            listening()
            async for event in events:
                assert isinstance(event, ResourceUpdated), event
                heard(event.uri)
        raise script.Cut("the server ended the subscription")


if __name__ == "__main__":
    script.main(Client)
