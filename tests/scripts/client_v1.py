"""The Python SDK 1.x, which speaks the handshake revisions, as the checks need it."""

import python_v1
from mcp import types
from steps import wire


class Client(python_v1.Client):
    def __init__(self, server, answers=True):
        super().__init__(server.transport, server.target)
        self.server = server
        self.witness.args = [self.witness.file, *server.command]
        self.user, self.asked = {"action": "accept"}, []
        if not answers:
            self.sample = self.elicit = self.roots = None

    async def elicit(self, context, params):
        self.asked.append(wire(params))
        return types.ElicitResult(**self.user)

    async def sample(self, context, params):
        self.asked.append(wire(params))
        return await super().sample(context, params)

    async def log(self, params):
        self.logs.append((params.level, params.data))

    async def call_logged(self, name, level, arguments):
        await self.session.set_logging_level(level)
        return await self.call(name, arguments)

    async def as_task(self, name, arguments):
        """The status a task begins with, every one that is seen of it, and its result."""
        tasks = self.session.experimental
        begun = (await tasks.call_tool_as_task(name, arguments)).task
        seen = [begun.status]
        # A question is put to whoever waits for the result.
        async for task in tasks.poll_task(begun.taskId):
            seen.append(task.status)
            if task.status == "input_required":
                break
        result = wire(await tasks.get_task_result(begun.taskId, types.CallToolResult))
        seen.append((await tasks.get_task(begun.taskId)).status)
        return seen, result

    detach = None
