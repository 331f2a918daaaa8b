"""The steps with tasks of the Python SDK 1.x, in the design of revision 2025-11-25."""

import asyncio
import contextlib
import json
import sys
import time
import uuid

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from steps import Owner, cancelled_labels, every, explain, text, wire

STEP_SECONDS = 40
CLOSE_SECONDS = 10
REVISION = "2025-11-25"
RELATED = "io.modelcontextprotocol/related-task"
# Longer than all steps together, so that nothing expires under them.
TTL = 600_000


class Client:
    def __init__(self, transport, target):
        self.transport, self.target = transport, target
        self.owner = Owner()
        self.questions = []
        # What a list must show: the status of every task that was begun.
        self.statuses = {}

    async def connect(self):
        self.session, opened = await self.owner.open(self.opened())
        return opened

    @contextlib.asynccontextmanager
    async def opened(self):
        async with self.streams() as (read, write, *_):
            async with ClientSession(read, write, elicitation_callback=self.elicit) as session:
                yield session, await session.initialize()

    def streams(self):
        if self.transport == "http":
            return streamable_http_client(self.target)
        return stdio_client(StdioServerParameters(command=self.target, args=["--stdio"]))

    async def elicit(self, context, params):
        self.questions.append(wire(params))
        return types.ElicitResult(action="accept", content={"confirm": True})

    @property
    def tasks(self):
        return self.session.experimental

    async def call(self, name, arguments):
        return wire(await self.session.call_tool(name, arguments))

    async def begin(self, name, arguments):
        """A new task, which must be at work."""
        task = wire(await self.tasks.call_tool_as_task(name, arguments, ttl=TTL))["task"]
        assert task["status"] == "working", f"it begins as {task}"
        assert task["taskId"] not in self.statuses, f"an id is used twice: {task}"
        assert task["ttl"] == TTL, f"it is kept for {task['ttl']} ms, and {TTL} were asked for"
        self.statuses[task["taskId"]] = task["status"]
        return task["taskId"]

    async def status(self, task_id):
        task = wire(await self.tasks.get_task(task_id))
        assert task["taskId"] == task_id, f"asked for {task_id}, told of {task}"
        self.statuses[task_id] = task["status"]
        return task["status"]

    async def poll(self, task_id):
        """Every status the SDK sees until the task is over."""
        seen = [task.status async for task in self.tasks.poll_task(task_id)]
        self.statuses[task_id] = seen[-1]
        return seen

    async def result(self, task_id):
        result = wire(await self.tasks.get_task_result(task_id, types.CallToolResult))
        related = result.get("_meta", {}).get(RELATED)
        assert related == {"taskId": task_id}, f"the result of {task_id} is said to be of {related}"
        return result

    async def list(self):
        async def page(cursor):
            return wire(await self.tasks.list_tasks(cursor))

        return {task["taskId"]: task["status"] for task in await every(page, "tasks")}

    async def restart(self):
        print(json.dumps({"restart": True}), flush=True)
        answer = await asyncio.to_thread(sys.stdin.readline)
        assert answer == "restarted\n", f"the server was not restarted: {answer!r}"


async def connect(client):
    opened = await client.connect()
    assert opened.serverInfo.name == "zcp-everything", f"server calls itself {opened.serverInfo.name!r}"
    assert opened.protocolVersion == REVISION, f"negotiated {opened.protocolVersion}"
    offered = wire(opened.capabilities).get("tasks")
    assert offered == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}, f"tasks are offered as {offered}"
    return f"protocol revision {REVISION}"


async def create(client):
    client.first = await client.begin("slow_compute", {"seconds": 2, "label": "first"})
    return client.first


async def poll(client):
    seen = await client.poll(client.first)
    assert seen[0] == "working" and set(seen[:-1]) == {"working"} and seen[-1] == "completed", f"seen: {seen}"
    return ", ".join(seen)


async def result(client):
    client.kept = await client.result(client.first)
    assert not client.kept.get("isError"), client.kept
    assert text(client.kept) == "first: computed for 2 seconds", text(client.kept)
    assert await client.result(client.first) == client.kept, "a second look shows another result"
    return text(client.kept)


async def question(client):
    task_id = await client.begin("confirm_delete", {"filename": "a.txt"})
    async for task in client.tasks.poll_task(task_id):
        if task.status == "input_required":
            break
    assert task.status == "input_required", f"it did not ask, and is {task.status}"
    assert client.questions == [], f"asked before anybody waited for the result: {client.questions}"
    done = await client.result(task_id)
    [asked] = client.questions
    assert asked["message"] == "Delete a.txt?", asked
    assert asked.get("_meta") == {RELATED: {"taskId": task_id}}, f"the question does not name its task: {asked}"
    assert text(done) == "a.txt deleted", text(done)
    assert await client.status(task_id) == "completed", client.statuses[task_id]
    return f"{asked['message']} {text(done)}"


async def cancel(client):
    label = f"tasks-{uuid.uuid4()}"
    task_id = await client.begin("slow_compute", {"seconds": 600, "label": label})
    cancelled = await client.tasks.cancel_task(task_id)
    assert (cancelled.taskId, cancelled.status) == (task_id, "cancelled"), f"the answer is {wire(cancelled)}"
    assert await client.status(task_id) == "cancelled", client.statuses[task_id]
    end = time.monotonic() + 5
    while label not in (labels := await cancelled_labels(client)) and time.monotonic() < end:
        await asyncio.sleep(0.1)
    assert label in labels, f"it was not stopped: cancelled labels are {labels}"
    try:
        again = await client.tasks.cancel_task(task_id)
    except McpError as error:
        assert error.error.code == -32602, f"a second cancel is refused with {error.error}"
        return f"a second time it is refused: {error.error.message}"
    raise AssertionError(f"a second cancel is answered with {wire(again)}")


async def failure(client):
    task_id = await client.begin("failing_job", {})
    seen = await client.poll(task_id)
    assert seen[-1] == "failed", f"seen: {seen}"
    failed = await client.result(task_id)
    assert failed.get("isError") is True, failed
    assert text(failed) == "the job failed, as it always does", text(failed)
    return text(failed)


async def listed(client):
    statuses = await client.list()
    assert statuses == client.statuses, f"listed: {statuses}; begun: {client.statuses}"
    return ", ".join(statuses.values())


async def restart(client):
    task_id = await client.begin("slow_compute", {"seconds": 3, "label": "again"})
    assert await client.status(task_id) == "working", client.statuses[task_id]
    await client.restart()
    seen = await client.poll(task_id)
    assert seen[0] == "working" and set(seen[:-1]) == {"working"} and seen[-1] == "completed", f"seen: {seen}"
    done = await client.result(task_id)
    assert text(done) == "again: computed for 3 seconds", text(done)
    return f"{text(done)}, after {len(seen)} looks"


async def kept(client):
    assert await client.status(client.first) == "completed", client.statuses[client.first]
    result = await client.result(client.first)
    assert result == client.kept, f"it was {client.kept}, and is {result}"
    return text(result)


STEPS = [connect, create, poll, result, question, cancel, failure, listed]
AFTER_RESTART = {"restart": restart, "kept": kept, "still_listed": listed}


async def perform(client):
    steps = {step.__name__: step for step in STEPS}
    if client.transport == "http":
        steps |= AFTER_RESTART
    failed = 0
    for name, step in steps.items():
        try:
            async with asyncio.timeout(STEP_SECONDS):
                ok, detail = True, await step(client)
        except TimeoutError:
            ok, detail = False, f"timed out, at most {STEP_SECONDS} s"
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            ok, detail = False, explain(error)
        print(json.dumps({"step": name, "ok": ok, "detail": detail}), flush=True)
        failed += not ok
        if step is connect and not ok:
            break
    async with asyncio.timeout(CLOSE_SECONDS):
        await client.owner.close()
    return 1 if failed else 0


if __name__ == "__main__":
    transport, target = sys.argv[1:]
    sys.exit(asyncio.run(perform(Client(transport, target))))
