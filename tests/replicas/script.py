"""What every Python client does over and over while replicas die, and what must come of it.

A program brings an adapter with the methods called here. Everything that happens is one JSON line
on standard output; when standard input ends, the client finishes what it does and says so.
"""

import asyncio
import itertools
import json
import sys
import time

import anyio

CALL_SECONDS = 30
TASK_SECONDS = 60
PAUSE_AFTER_FAILURE = 0.3
WATCHED = "test://watched-resource"
SIMPLE = "This is a simple text response for testing."
TASK_DIED = "stopped before it was done"
# What a server says of a request it does not understand: a kill is no reason for that.
REFUSALS = {-32700, -32600, -32601, -32602}


class Lost(Exception):
    """Something that must not happen, whatever is killed."""


class Cut(Exception):
    """The connection went while a call was under way."""


def tell(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


class Script:
    def __init__(self, client):
        self.client = client
        self.stopping = asyncio.Event()
        self.numbers = itertools.count(1)

    async def perform(self):
        name, revision = await self.client.connect()
        changed = getattr(self.client, "changed", [])
        tell("connected", server=name, revision=revision, sessions=self.client.sessions(), changed=changed)
        listening = asyncio.create_task(self.listen())
        loops = [
            self.keep_on("calls", self.call, 0.05),
            self.keep_on("progress", self.progress, 0.1),
            self.keep_on("sampling", self.sampling, 0.1),
            self.keep_on("elicitation", self.elicitation, 0.1),
        ]
        if hasattr(self.client, "start_task"):
            loops.append(self.keep_on("tasks", self.task, 0.1))
        await asyncio.gather(self.wait_for_end(), *loops)
        listening.cancel()
        await asyncio.wait({listening})
        tell("done", sessions=self.client.sessions())

    async def wait_for_end(self):
        await asyncio.to_thread(sys.stdin.read)
        self.stopping.set()

    async def keep_on(self, kind, act, pause):
        while not self.stopping.is_set():
            label = f"{self.client.name}-{next(self.numbers)}"
            began = time.time()
            try:
                await act(kind, label)
                tell("ok", kind=kind)
            except Lost as lost:
                tell("lost", kind=kind, began=began, ended=time.time(), detail=str(lost))
            await asyncio.sleep(pause)

    async def again(self, kind, what, call):
        """Makes a call until it is answered. That it fails is told; that it hangs is a loss."""
        end = time.time() + CALL_SECONDS
        while (began := time.time()) < end:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    return await call()
            except TimeoutError:
                raise Lost(f"{what}: no answer and no error in {CALL_SECONDS} s") from None
            except Exception as error:
                if self.client.is_lost(error):
                    raise Lost(f"{what}: {explain(error)}") from None
                detail = f"{what}: {explain(error)}"
                tell("failed", kind=kind, began=began, ended=time.time(), detail=detail)
            await asyncio.sleep(PAUSE_AFTER_FAILURE)
        raise Lost(f"{detail}, again and again for {CALL_SECONDS} s")

    async def tool(self, kind, name, arguments, progress=None):
        what = f"tools/call {name} {json.dumps(arguments)}"
        result = await self.again(kind, what, lambda: self.client.call(name, arguments, progress))
        return text(what, result)

    async def call(self, kind, label):
        expect(await self.tool(kind, "test_simple_text", {}), SIMPLE)
        expect(await self.tool(kind, "greet", {"name": label}), f"Hello, {label}!")

    async def progress(self, kind, label):
        seen = []

        async def heard(done, total, message):
            seen.append((done, total, message))

        arguments = {"seconds": 0.5, "label": label}
        expect(await self.tool(kind, "slow_compute", arguments, heard), f"{label}: computed for 0.5 seconds")
        # A call that was made again has told of itself more than once.
        if {(total, message) for _, total, message in seen} != {(5, label)}:
            raise Lost(f"slow_compute {label}: its progress was {seen}")

    async def sampling(self, kind, label):
        expect(await self.tool(kind, "test_sampling", {"prompt": label}), f"LLM response: {sampled(label)}")

    async def elicitation(self, kind, label):
        said = await self.tool(kind, "test_elicitation", {"message": label})
        expect(said, f"User response: action=accept, content={json.dumps(person(label), separators=(',', ':'))}")

    async def task(self, kind, label):
        await self.finish(kind, "slow_compute", {"seconds": 0.5, "label": label}, f"{label}: computed for 0.5 seconds")
        await self.finish(kind, "confirm_delete", {"filename": label}, f"{label} deleted")

    async def finish(self, kind, tool, arguments, expected):
        """A task from its start to its result, which outlives the replicas it is on."""
        while True:
            began = time.time()
            what = f"task {tool} {json.dumps(arguments)}"
            task = await self.again(kind, f"{what}: start", lambda: self.client.start_task(tool, arguments))
            why = await self.outcome(kind, f"{what} {task}", task)
            if why is None:
                break
            # Only this one may not be done twice, and may say so instead.
            if tool != "confirm_delete" or TASK_DIED not in why:
                raise Lost(f"{what} {task}: it failed: {why}")
            tell("failed", kind=kind, began=began, ended=time.time(), detail=f"{what}: {why}")
        result = await self.again(kind, f"{what}: result", lambda: self.client.task_result(task))
        expect(text(what, result), expected)

    async def outcome(self, kind, what, task):
        """Waits for the end of a task; gives why it failed, if it did."""
        end = time.monotonic() + TASK_SECONDS
        while time.monotonic() < end:
            status, words = await self.again(kind, f"{what}: status", lambda: self.client.task_status(task))
            if status == "completed":
                return None
            if status in ("failed", "cancelled"):
                return f"{status}: {words}"
            if status == "input_required":
                # Its question is asked where its result is waited for.
                await self.again(kind, f"{what}: answer", lambda: self.client.task_answered(task))
            await asyncio.sleep(0.2)
        raise Lost(f"{what}: no result in {TASK_SECONDS} s")

    async def listen(self):
        """Listens all the time; tells when it does, and when it was cut off."""
        while True:
            began = time.time()
            try:
                await self.client.listen(lambda: tell("listening"), lambda: tell("pausing"), self.heard)
            except Exception as error:
                kind = "lost" if self.client.is_lost(error) else "failed"
                tell("deaf")
                tell(kind, kind="subscriptions", began=began, ended=time.time(), detail=f"listening: {explain(error)}")
            await asyncio.sleep(PAUSE_AFTER_FAILURE)

    def heard(self, uri):
        if uri == WATCHED:
            tell("heard")


class Link:
    """A connection of an SDK, opened when it is needed and again when it has ended."""

    def __init__(self, opened):
        self.opened = opened
        self.holding, self.lock = None, asyncio.Lock()

    async def use(self, make):
        """A request on the connection; fails at once when that ends, which not every SDK does."""
        holding, value = await self.ready()
        call = asyncio.ensure_future(make(value))
        try:
            await asyncio.wait({call, holding}, return_when=asyncio.FIRST_COMPLETED)
            # What was answered before the end has a moment to be handed over.
            await asyncio.wait({call}, timeout=0.1)
            if not call.done():
                raise Cut(f"the connection ended: {holding.result()}")
            return call.result()
        except Exception as error:
            if is_closed(error):
                holding.cancel()
            raise
        finally:
            call.cancel()

    async def ready(self):
        """The connection, and the task that holds it."""
        async with self.lock:
            if self.holding is None or self.holding.done():
                opening = asyncio.get_running_loop().create_future()
                self.holding = asyncio.create_task(self.hold(opening))
                self.value = await opening
            return self.holding, self.value

    async def hold(self, opening):
        """In a task of its own, so that no call's timeout cuts through it."""
        try:
            async with self.opened() as value:
                opening.set_result(value)
                await asyncio.Event().wait()
        except BaseException as error:
            if not opening.done():
                opening.set_exception(Cut(explain(error)))
                return "it was not opened"
            return explain(error)


def is_closed(error):
    """Whether an SDK says that its connection is gone, even if it still holds it."""
    gone = (anyio.ClosedResourceError, anyio.BrokenResourceError)
    return isinstance(error, gone) or str(error) == "Connection closed"


def sampled(prompt):
    return f"a model's words about {prompt}"


def person(message):
    """What a user answers, so that the answer to one question fits no other."""
    return {"username": message, "email": f"{message}@example.com"}


def form(message, schema):
    return {"confirm": True} if "confirm" in schema["properties"] else person(message)


def expect(said, expected):
    if said != expected:
        raise Lost(f"expected `{expected}`, and `{said}` came back")


def text(what, result):
    if result.get("isError"):
        raise Lost(f"{what}: {json.dumps(result)}")
    return "\n".join(block.get("text", "") for block in result["content"])


def wire(model):
    """An SDK's pydantic model as the JSON it stands for."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def explain(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:400]


def main(adapter):
    name, calls, listening = sys.argv[1:]

    async def perform():
        await Script(adapter(name, calls, listening)).perform()

    asyncio.run(perform())
