"""The Python SDK 2.x, which speaks 2026-07-28, as the checks need it."""

import asyncio
from typing import ClassVar, Literal

import mcp_types as types
import python_v2
from mcp import Client as Mcp
from mcp import StdioServerParameters
from mcp.client.extension import ClientExtension, ResultClaim
from python_v2 import wire


class Client(python_v2.Client):
    def __init__(self, server, answers=True, follows=None):
        super().__init__(server.transport, server.target)
        self.server = server
        self.witness.args = [self.witness.file, *server.command]
        self.user, self.asked, self.follows = {"action": "accept"}, [], follows
        if not answers:
            self.sample = self.elicit = self.roots = None

    async def connect(self):
        server = self.target
        if self.transport == "stdio":
            server = StdioServerParameters(command=self.witness.command, args=self.witness.args)
        self.mcp = await self.owner.open(
            Mcp(
                server,
                sampling_callback=self.sample,
                elicitation_callback=self.elicit,
                list_roots_callback=self.roots,
                logging_callback=self.log,
                extensions=self.follows and [self.follows],
            )
        )
        return self.mcp.server_info.name, self.mcp.protocol_version

    async def elicit(self, context, params):
        self.asked.append(wire(params))
        return types.ElicitResult(**self.user)

    async def sample(self, context, params):
        self.asked.append(wire(params))
        return await super().sample(context, params)

    async def log(self, params):
        self.logs.append((params.level, params.data))

    async def call_logged(self, name, level, arguments):
        return wire(await self.mcp.call_tool(name, arguments, meta={"io.modelcontextprotocol/logLevel": level}))

    async def as_task(self, name, arguments):
        """The status a task begins with, every one that is seen of it, and its result."""
        tasks = Tasks()
        other = Client(self.server, follows=tasks)
        await other.connect()
        result = await other.call(name, arguments)
        await other.close()
        return tasks.seen, result

    detach = as_task


class Task(types.Result):
    result_type: Literal["task"]
    task_id: str
    status: str


class TaskParams(types.RequestParams):
    task_id: str
    input_responses: dict | None = None


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    name_param: ClassVar[str] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams


class UpdateTask(types.Request[TaskParams, Literal["tasks/update"]]):
    name_param: ClassVar[str] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: TaskParams


class TaskState(types.Result):
    status: str
    input_requests: dict | None = None
    result: dict | None = None


class Tasks(ClientExtension):
    """Follows tasks: the SDK has the place for it, and leaves the rest to its users."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self):
        self.seen = []

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.follow)]

    async def follow(self, task, context):
        self.seen.append(task.status)
        while True:
            look = GetTask(params=TaskParams(task_id=task.task_id))
            state = await context.session.send_request(look, TaskState)
            self.seen.append(state.status)
            if state.status == "completed":
                return types.CallToolResult.model_validate(state.result)
            assert state.status in ("working", "input_required"), state
            if state.input_requests:
                yes = {key: {"action": "accept", "content": {}} for key in state.input_requests}
                answer = UpdateTask(params=TaskParams(task_id=task.task_id, input_responses=yes))
                await context.session.send_request(answer, types.EmptyResult)
            await asyncio.sleep(0.1)
