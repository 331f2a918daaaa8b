"""What every Python client is asked to do, and what must come of it.

A program brings an adapter with the methods called here; results travel as plain JSON in the
wire's own spelling, so one set of assertions fits every SDK.
"""

import asyncio
import base64
import json
import os
import sys
import tempfile
import time
import uuid

STEP_SECONDS = 20
# Clients come back for a stream that ended without a response after a second or so, several times.
STAYS_SECONDS = 10
SERVER_ARGS = ["--stdio", "--page-size", "15"]

TOOLS = {
    "test_simple_text", "test_tool_with_progress", "test_tool_with_logging", "test_structured_output",
    "test_invalid_output", "slow_compute", "test_cancelled_labels", "test_sampling", "test_elicitation",
    "test_list_roots", "test_runs", "test_trigger_resource_update", "test_trigger_tool_change",
}
FORECAST = {"city": "Oslo", "temperature": 21.5, "conditions": "clear"}
MODEL_SAYS = "from the client's model"
USER_SAYS = {"username": "ada", "email": "ada@example.com"}
ROOT = "file:///tmp/project"
WATCHED = "test://watched-resource"


class Witness:
    """Starts the server so that the way it ended can be read afterwards."""

    def __init__(self, server):
        self.folder = tempfile.TemporaryDirectory(prefix="interop-")
        self.file = os.path.join(self.folder.name, "status")
        self.command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "witness")
        self.args = [self.file, server, *SERVER_ARGS]

    async def status(self):
        await eventually(lambda: os.path.exists(self.file) and os.path.getsize(self.file), 2)
        return open(self.file).read().strip() if os.path.exists(self.file) else "killed"


class Owner:
    """Holds a context manager open in a task of its own, so that no step's timeout cuts through it."""

    async def open(self, context):
        self._stop = asyncio.Event()
        opened = asyncio.get_running_loop().create_future()

        async def hold():
            try:
                async with context as value:
                    opened.set_result(value)
                    await self._stop.wait()
            except BaseException as error:
                if opened.done():
                    raise
                opened.set_exception(error)

        self._task = asyncio.create_task(hold())
        return await opened

    async def close(self):
        self._stop.set()
        await self._task


async def eventually(true, seconds):
    """Waits until `true()` holds, or the time is up; the caller asserts."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        await asyncio.sleep(0.02)


def wire(model):
    """An SDK's pydantic model as the JSON it stands for."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def text(result):
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


async def every(fetch, key):
    """All items of a paged list."""
    page = await fetch(None)
    items = page[key]
    while "nextCursor" in page:
        page = await fetch(page["nextCursor"])
        items += page[key]
    return items


async def connect(client):
    name, revision = await client.connect()
    assert name == "zcp-everything", f"server calls itself {name!r}"
    assert revision == client.revision, f"negotiated {revision}, both sides know {client.revision}"
    return f"protocol revision {revision}"


async def list_pages(client):
    pages = []

    async def fetch(cursor):
        page = await client.list_tools(cursor)
        pages.append([tool["name"] for tool in page["tools"]])
        return page

    names = [tool["name"] for tool in await every(fetch, "tools")]
    assert len(pages) >= 3, f"{len(pages)} pages of {[len(page) for page in pages]}"
    assert len(names) == len(set(names)), f"listed twice: {sorted(n for n in set(names) if names.count(n) > 1)}"
    assert TOOLS <= set(names), f"not listed: {sorted(TOOLS - set(names))}"
    return f"{len(names)} tools on {len(pages)} pages"


async def progress(client):
    seen = []

    async def heard(value, total, message):
        seen.append((value, total))

    result = await client.call("test_tool_with_progress", {}, heard)
    await eventually(lambda: len(seen) >= 3, 1)
    assert not result.get("isError"), text(result)
    assert seen == [(0, 100), (50, 100), (100, 100)], f"progress was {seen}"
    return f"{[value for value, _ in seen]} of 100"


async def structured(client):
    result = await client.call("test_structured_output", {"city": "Oslo"})
    # It came with 2025-06-18; the text says the same to older clients.
    expected = FORECAST if client.revision >= "2025-06-18" else None
    assert result.get("structuredContent") == expected, f"structuredContent is {result.get('structuredContent')}"
    assert json.loads(text(result)) == FORECAST, f"text is {text(result)}"


async def invalid_output(client):
    try:
        result = await client.call("test_invalid_output", {})
    except Exception as error:
        assert "schema" in str(error).lower(), f"an error that does not mention the schema: {error}"
        return f"raised: {first_line(error)}"
    assert result.get("isError"), f"passed as a success: {result}"
    return f"isError: {first_line(text(result))}"


async def invalid_arguments(client):
    try:
        result = await client.call("test_structured_output", {})
    except Exception as error:
        assert "city" in str(error), f"an error that does not name `city`: {error}"
        return f"raised: {first_line(error)}"
    assert result.get("isError"), f"passed as a success: {result}"
    assert "city" in text(result), f"a text that does not name `city`: {text(result)}"
    return f"isError: {first_line(text(result))}"


async def begin_and_cancel(client):
    """Cancels a call after its first progress notification; gives its label."""
    label = f"interop-{uuid.uuid4()}"
    started = asyncio.Event()

    async def heard(value, total, message):
        started.set()

    call = asyncio.create_task(client.call("slow_compute", {"seconds": 30, "label": label}, heard))
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait({call, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert started.is_set(), f"ended without progress: {call.exception() or call.result()}"
    await client.cancel(call)
    return label


async def cancel(client):
    label = await begin_and_cancel(client)
    async with asyncio.timeout(2):
        assert text(await client.call("test_simple_text", {})), "no text after the cancel"
    end = time.monotonic() + 5
    while label not in (labels := await cancelled_labels(client)) and time.monotonic() < end:
        await asyncio.sleep(0.1)
    assert label in labels, f"the server was never told: cancelled labels are {labels}"


async def cancelled_labels(client):
    labels = json.loads(text(await client.call("test_cancelled_labels", {})))
    assert isinstance(labels, list), f"not a list: {labels}"
    return labels


async def stays_cancelled(client):
    """With each kind of connection this client has: only a session's streams are resumed."""
    handshaking = client.handshaking()
    if handshaking is None:
        return await cancelled_once(client)
    await handshaking.connect()
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(cancelled_once(client))
            tasks.create_task(cancelled_once(handshaking))
    finally:
        await handshaking.close()
    return "also in a session of 2025-11-25"


async def cancelled_once(client):
    """The tool stops within a second of the cancel, and is not started again while the connection is open."""
    label = await begin_and_cancel(client)
    cancelled = time.monotonic()
    runs = await runs_of(client, label)
    while runs["running"] and time.monotonic() < cancelled + 1:
        await asyncio.sleep(0.05)
        runs = await runs_of(client, label)
    while runs == {"started": 1, "running": 0} and time.monotonic() < cancelled + STAYS_SECONDS:
        await asyncio.sleep(0.5)
        runs = await runs_of(client, label)
    after = f"{time.monotonic() - cancelled:.1f} s after the call was cancelled in {client.revision}"
    assert runs["started"] == 1, f"the tool had been started {runs['started']} times {after}"
    assert runs["running"] == 0, f"the tool was running {after}"


async def runs_of(client, label):
    return json.loads(text(await client.call("test_runs", {"label": label})))


async def sampling(client):
    result = await client.call("test_sampling", {"prompt": "hi"})
    assert MODEL_SAYS in text(result), text(result)


async def elicitation(client):
    result = await client.call("test_elicitation", {"message": "who?"})
    assert USER_SAYS["username"] in text(result), text(result)


async def roots(client):
    result = await client.call("test_list_roots", {})
    assert ROOT in text(result), text(result)


async def resources(client):
    uris = {resource["uri"] for resource in await every(client.list_resources, "resources")}
    assert {"test://static-text", "test://static-binary"} <= uris, f"listed: {sorted(uris)}"
    [static] = await client.read("test://static-text")
    assert static["uri"] == "test://static-text" and static["text"], static
    [binary] = await client.read("test://static-binary")
    assert base64.b64decode(binary["blob"], validate=True), binary
    templates = {template["uriTemplate"] for template in await every(client.list_templates, "resourceTemplates")}
    assert "test://template/{id}/data" in templates, f"listed: {sorted(templates)}"
    [filled] = await client.read("test://template/123/data")
    assert json.loads(filled["text"])["id"] == "123", filled
    try:
        nothing = await client.read("test://nope")
    except client.Error as error:
        code = error.error.code
        assert code == client.not_found, f"reading test://nope gave code {code}, {client.revision} has {client.not_found}"
        return f"a missing resource is error {code}"
    raise AssertionError(f"reading test://nope gave {nothing}")


async def resource_updated(client):
    async with client.watch_resource(WATCHED) as updated:
        await client.call("test_trigger_resource_update", {})
        uri = await updated()
    assert uri == WATCHED, f"an update of {uri}"


async def prompts(client):
    names = {prompt["name"] for prompt in await every(client.list_prompts, "prompts")}
    assert "test_prompt_with_arguments" in names, f"listed: {sorted(names)}"
    result = await client.get_prompt("test_prompt_with_arguments", {"arg1": "hello", "arg2": "world"})
    said = [message["content"].get("text") for message in result["messages"]]
    assert said == ["Prompt with arguments: arg1='hello', arg2='world'"], said


async def completion(client):
    result = await client.complete("test_prompt_with_arguments", "arg1", "par")
    values = result["completion"]["values"]
    assert "paris" in values, values
    return f"{values}"


async def logging(client):
    client.logs.clear()
    await client.call_logged("test_tool_with_logging", "debug")
    await eventually(lambda: len(client.logs) >= 3, 2)
    assert len(client.logs) >= 3, f"{len(client.logs)} log messages: {client.logs}"
    assert "Tool execution started" in json.dumps(client.logs[0]), f"the first is {client.logs[0]}"
    return f"{len(client.logs)} messages"


async def list_changed(client):
    async with client.watch_tools() as changed:
        await client.call("test_trigger_tool_change", {})
        await changed()


async def close(client):
    assert text(await client.call("test_simple_text", {})), "no text before the close"
    detail = await client.close()
    try:
        await client.call("test_simple_text", {})
    except Exception:
        return detail
    raise AssertionError("a call after the close was answered")


STEPS = [
    connect, list_pages, progress, structured, invalid_output, invalid_arguments, cancel, stays_cancelled, sampling,
    elicitation, roots, resources, resource_updated, prompts, completion, logging, list_changed, close,
]


def first_line(value):
    return str(value).strip().split("\n")[0][:600]


def explain(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"timed out, at most {STEP_SECONDS} s"
    if isinstance(error, AssertionError):
        return str(error)[:600]
    return f"{type(error).__name__}: {error}"[:600]


async def perform(client, steps):
    connected = True
    for step in steps:
        line = {"step": step.__name__}
        # What a version of an SDK has no way to do.
        if cannot := getattr(client, "cannot", {}).get(step.__name__):
            print(json.dumps(line | {"cannot": cannot}), flush=True)
            continue
        try:
            assert connected, "not connected"
            async with asyncio.timeout(STEP_SECONDS):
                line |= {"ok": True, "detail": await step(client) or ""}
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            line |= {"ok": False, "detail": explain(error)}
            # A server that introduced itself wrongly can still be talked to.
            connected = connected and (step is not connect or isinstance(error, AssertionError))
        print(json.dumps(line), flush=True)


def main(adapter, steps=STEPS):
    transport, target = sys.argv[1:]
    asyncio.run(perform(adapter(transport, target), steps))
