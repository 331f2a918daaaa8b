"""What a folder of scripts must answer, in every language, to an official client.

Prints one JSON line a check: `{"feature", "language", "ok", "detail"}`.
"""

import argparse
import asyncio
import base64
import contextlib
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from steps import MODEL_SAYS, ROOT, eventually, every, explain, text

SECONDS = 30
NAME = "script-tests"
SDK = ["bash", "python", "node", "ruby"]
SCRIPTS = [*SDK, "perl"]
ALL = [*SCRIPTS, "compiled"]
SERVER = ["server"]
FORMS = ["stdin", "env", "both", "argv"]

ARGS = {"word": 'a "b"\n$c é', "many": ["x", "-y z"], "loud": True}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
YES = {"action": "accept", "content": {}}


@dataclass
class Server:
    """Which server is checked, and how it is reached."""

    transport: str
    target: str
    zcp: str
    folder: Path

    @property
    def command(self):
        # The SDK hands few variables on, and what is left behind is looked for here.
        return ["env", f"TMPDIR={tempfile.gettempdir()}", self.zcp, "serve", str(self.folder), "--stdio"]

    def file(self, name):
        return (self.folder / "files" / name).read_bytes()


@contextlib.asynccontextmanager
async def another(client, **how):
    other = type(client)(client.server, **how)
    await other.connect()
    try:
        yield other
    finally:
        await other.close()


async def do(client, language, what, **more):
    """What a language's script says to one of the things it can do."""
    return await client.call(language, {"do": what, **more})


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def says(result, words):
    """An answer that is one text and nothing else."""
    assert "structuredContent" not in result, result
    same((result["isError"], result["content"]), (False, [{"type": "text", "text": words}]))


async def connect(client, _):
    name, revision = await client.connect()
    same(name, NAME)
    same(revision, client.revision)
    command = text(await client.call("server", {}))
    wire = ["--stdio"] if client.transport == "stdio" else ["--http", client.target[7:-4]]
    same(command, " ".join([client.server.zcp, "serve", str(client.server.folder), *wire]))


async def tools(client, _):
    found = {tool["name"]: tool for tool in await every(client.list_tools, "tools")}
    forms = [f"{language}_{form}" for language in SCRIPTS for form in [*FORMS, "wait"]]
    tasks = [f"{language}_task" for language in SDK]
    same(sorted(found), sorted([*ALL, *forms, *tasks, "contract", "server"]))
    for language in SCRIPTS:
        tool = found[f"{language}_both"]
        same(tool["description"], "Shows what it was given.")
        properties = {
            "word": {"type": "string", "description": "A word."},
            "many": {"type": "array", "items": {"type": "string"}, "description": "More of them."},
            "loud": {"type": "boolean", "default": False, "description": "Whether to shout."},
        }
        same(tool["inputSchema"], {"type": "object", "properties": properties, "required": ["word"]})
        same(found[language]["inputSchema"]["required"], ["do"])


async def arguments(client, language, form):
    reads_variables = language in ("python", "node", "ruby")
    expected = {
        "stdin": {"args": ARGS, "word": None, "argv": []},
        "env": {"args": ARGS if reads_variables else {}, "word": ARGS["word"], "argv": []},
        "both": {"args": ARGS, "word": ARGS["word"], "argv": []},
        "argv": {"args": {}, "word": None, "argv": ["--word", ARGS["word"], "--loud", "--", "x", "-y z"]},
    }
    result = await client.call(f"{language}_{form}", ARGS)
    same(result.get("structuredContent"), expected[form])
    same(json.loads(text(result)), expected[form])


async def stdin(client, language):
    await arguments(client, language, "stdin")


async def env(client, language):
    await arguments(client, language, "env")


async def both(client, language):
    if language == "compiled":
        result = await client.call(language, {"do": "show"})
        return same(result.get("structuredContent"), {"args": {"do": "show", "word": "none"}})
    await arguments(client, language, "both")


async def argv(client, language):
    await arguments(client, language, "argv")
    result = await client.call(f"{language}_argv", {"word": "w"})
    same(result["structuredContent"]["argv"], ["--word", "w", "--"])


async def mcp_bash(client, _):
    client.logs.clear()
    result = await client.call_logged("contract", "info", ARGS)
    shown = {"word": ARGS["word"], "many": "x+-y z", "stdin": ""}
    same(result.get("structuredContent"), {"success": True, "result": shown})
    await eventually(lambda: client.logs, 2)
    same(client.logs, [("info", f"the word is {shown['word']}")])
    same(await heard(client, "contract", ARGS, 1), [(50, 100, "halfway")])


async def refused(client, language):
    result = await client.call(f"{language}_both", {"word": 5})
    assert result["isError"] and "word" in text(result), result


async def lost(client, language):
    """What can be no variable and no word of a command line is refused."""
    for form in ("env", "argv"):
        for word in ("x" * 200_000, "a\0b"):
            result = await client.call(f"{language}_{form}", {"word": word})
            assert result["isError"], f"as {form}, a word of {len(word)} characters is lost: {text(result)}"


async def content(client, language):
    result = await do(client, language, "content")
    same(result["structuredContent"], {"city": "Oslo"})
    encoded = {name: base64.b64encode(client.server.file(name)).decode() for name in ("dot.png", "tone.wav")}
    note = (client.server.folder / "files/note.txt").as_uri()
    expected = [
        {"type": "text", "text": '{"city":"Oslo"}'},
        {"type": "text", "text": "and more"},
        {"type": "image", "data": encoded["dot.png"], "mimeType": "image/png"},
        {"type": "audio", "data": encoded["tone.wav"], "mimeType": "audio/x-wav"},
        {"type": "resource", "resource": {"uri": note, "mimeType": "text/plain", "text": "a note\n"}},
        {"type": "resource_link", "uri": "https://example.com/map", "name": "Map"},
    ]
    same(result["content"], expected)


async def printed(client, language):
    for name, kind in {"dot.png": "image", "tone.wav": "audio"}.items():
        [block] = (await do(client, language, "print", about=f"files/{name}"))["content"]
        same((block["type"], base64.b64decode(block["data"])), (kind, client.server.file(name)))
    says(await do(client, language, "print", about="files/note.txt"), "a note")


async def heard(client, tool, args, times):
    """The progress of a call, which comes so many times."""
    seen = []

    async def hear(done, total, message):
        seen.append((done, total, message))

    await client.call(tool, args, hear)
    await eventually(lambda: len(seen) >= times, 2)
    return seen


async def progress(client, language):
    told = await heard(client, language, {"do": "progress"}, 3)
    same(told, [(1, 4, "begun"), (2.5, 4, None), (4, 4, "all done")])
    says(await do(client, language, "progress"), "told")


async def log(client, language):
    client.logs.clear()
    says(await client.call_logged(language, "info", {"do": "log"}), "told")
    await eventually(lambda: len(client.logs) >= 2, 2)
    same(client.logs, [("info", "starting"), ("warning", {"disk": 91})])
    client.logs.clear()
    await client.call_logged(language, "error", {"do": "log"})
    same(client.logs, [])


async def ask(client, language):
    client.asked.clear()
    client.user = {"action": "accept", "content": {"name": "Ann é"}}
    result = await do(client, language, "ask")
    same(result.get("structuredContent"), {"name": "Ann é"})
    [asked] = client.asked
    same((asked["message"], asked["requestedSchema"]), ("Your name?", FORM))
    for action, name in {"decline": "Declined", "cancel": "Cancelled"}.items():
        client.user = {"action": action}
        says(await do(client, language, "ask"), unanswered(language, 1, name))


def unanswered(language, status, name):
    """How a language speaks of a question without an answer."""
    return f"status {status}" if language == "bash" else name


async def confirm(client, language):
    client.user = YES
    says(await do(client, language, "confirm"), "yes")
    for action in ("decline", "cancel"):
        client.user = {"action": action}
        says(await do(client, language, "confirm"), unanswered(language, 1, "no"))


async def visit(client, language):
    client.asked.clear()
    client.user = {"action": "accept"}
    says(await do(client, language, "visit", about="https://example.com/sign"), "visited")
    [asked] = client.asked
    same((asked["mode"], asked["message"], asked["url"]), ("url", "Please sign.", "https://example.com/sign"))
    client.user = {"action": "decline"}
    declined = await do(client, language, "visit", about="https://example.com/sign")
    says(declined, unanswered(language, 1, "Declined"))


async def sample(client, language):
    client.asked.clear()
    says(await do(client, language, "sample"), MODEL_SAYS)
    [asked] = client.asked
    [message] = asked["messages"]
    content = message["content"] if isinstance(message["content"], dict) else message["content"][0]
    same((message["role"], content["text"], asked["maxTokens"]), ("user", "A joke, please.", 50))


async def roots(client, language):
    says(await do(client, language, "roots"), ROOT)


async def unable(client, language):
    """A client that answers no questions."""
    async with another(client, answers=False) as silent:
        for what in ("ask", "confirm", "visit", "sample", "roots"):
            says(await do(silent, language, what, about=ROOT), unanswered(language, 2, "Unable"))


async def once(client, language):
    client.user = YES
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder, "runs")
        says(await do(client, language, "once", about=str(runs)), "1")
        # Since 2026-07-28 a question ends the run, and the answer begins another.
        same(runs.read_text().count("run"), 2 if client.revision >= "2026" else 1)


async def twice(client, language):
    says(await do(client, language, "twice"), "first first")


async def updated(client, language):
    uri = (client.server.folder / "resources/note.md").as_uri()
    async with client.watch_resource(uri) as changed:
        await do(client, language, "updated", about=uri)
        same(await changed(), uri)


async def task(client, language):
    client.user = YES
    says(await client.call(f"{language}_task", {}), "done")
    seen, result = await client.as_task(f"{language}_task", {})
    same(text(result), "done")
    same((seen[:1], "input_required" in seen, seen[-1:]), (["working"], True, ["completed"]))


async def detach(client, language):
    says(await do(client, language, "detach"), "done")
    if client.detach:
        seen, result = await client.detach(language, {"do": "detach"})
        same((text(result), seen[:1], seen[-1:]), ("done", ["working"], ["completed"]))


async def cancel(client, language):
    mark = f"{random.randint(10**5, 10**6)}.{random.randint(10**5, 10**6)}"
    started = asyncio.Event()

    async def hear(*_):
        started.set()

    call = asyncio.create_task(client.call(f"{language}_wait", {"mark": mark}, hear))
    await asyncio.wait({call, asyncio.create_task(started.wait())}, return_when=asyncio.FIRST_COMPLETED)
    assert started.is_set(), f"ended without progress: {call.exception() or call.result()}"
    await eventually(lambda: len(running(mark)) == 2, 5)
    assert len(running(mark)) == 2, f"the script and its sleep are {running(mark)}"
    await client.cancel(call)
    await eventually(lambda: not running(mark), 5)
    same(running(mark), [])
    says(await do(client, language, "progress"), "told")


def running(mark):
    found = subprocess.run(["pgrep", "-af", mark], capture_output=True, text=True)
    return found.stdout.splitlines()


async def exit_code(client, language):
    result = await do(client, language, "exit")
    same(result["isError"], True)
    why = f"`{language}` failed: exit code 3.\nIts last words:\nno such city"
    same([block["text"] for block in result["content"]], ["half done", why])
    same(result["_meta"]["exitCode"], 3)


async def fail(client, language):
    result = await do(client, language, "fail")
    same((result["isError"], [block["text"] for block in result["content"]]), (True, ["Give a city."]))


async def resource(client, _):
    listed = {one["uri"]: one for one in await every(client.list_resources, "resources")}
    uri = (client.server.folder / "resources/note.md").as_uri()
    same(sorted(listed), sorted([uri, "time://now"]))
    same((listed[uri]["name"], listed[uri]["mimeType"], listed[uri]["size"]), ("note", "text/markdown", 9))
    same(await client.read(uri), [{"uri": uri, "mimeType": "text/markdown", "text": "# A note\n"}])
    made = {"uri": "time://now", "mimeType": "text/plain", "text": "made for time://now\n"}
    same(await client.read("time://now"), [made])


async def template(client, language):
    listed = [one["uriTemplate"] for one in await every(client.list_templates, "resourceTemplates")]
    same(sorted(listed), sorted(f"{each}://{{city}}/{{street}}" for each in SCRIPTS))
    uri = f"{language}://Bad%20Ischl/Stra%C3%9Fe"
    [read] = await client.read(uri)
    same((read["uri"], read["mimeType"]), (uri, "application/json"))
    same(json.loads(read["text"]), {"city": "Bad Ischl", "street": "Straße", "uri": uri})


async def prompt(client, language):
    listed = {one["name"]: one for one in await every(client.list_prompts, "prompts")}
    same(sorted(listed), sorted([*SCRIPTS, "review"]))
    same(listed[language]["arguments"], [{"name": "topic", "description": "About what.", "required": True}])
    filled = await client.get_prompt(language, {"topic": "rain é"})
    same(spoken(filled), [("user", "About rain é"), ("assistant", "Yes?")])


def spoken(prompt):
    return [(message["role"], message["content"]["text"]) for message in prompt["messages"]]


async def completion(client, _):
    filled = await client.get_prompt("review", {"code": "x = 1", "focus": "speed"})
    same(spoken(filled), [("user", "Review x = 1, above all its speed."), ("assistant", "Gladly.")])
    for typed, known in {"s": ["safety", "speed", "style"], "st": ["style"], "x": []}.items():
        completed = await client.complete("review", "focus", typed)
        same(completed["completion"]["values"], known)


async def close(client, _):
    await client.close()


CHECKS = [
    (connect, SERVER), (tools, SERVER), (stdin, SCRIPTS), (env, SCRIPTS), (both, ALL), (argv, SCRIPTS),
    (mcp_bash, ["bash"]), (refused, SCRIPTS), (lost, SCRIPTS), (content, SCRIPTS), (printed, SCRIPTS),
    (progress, ALL), (log, SDK), (ask, SDK), (confirm, SDK), (visit, SDK), (sample, SDK), (roots, SDK), (unable, SDK),
    (once, SDK), (twice, SDK), (updated, SDK), (task, SDK), (detach, SDK), (cancel, SCRIPTS), (exit_code, ALL),
    (fail, SDK), (resource, SERVER), (template, SCRIPTS), (prompt, SCRIPTS), (completion, SERVER), (close, SERVER),
]


async def perform(client):
    for check, languages in CHECKS:
        for language in languages:
            line = {"feature": check.__name__, "language": language, "ok": True, "detail": ""}
            try:
                async with asyncio.timeout(SECONDS):
                    await check(client, language)
            except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
                line |= {"ok": False, "detail": explain(error)}
            print(json.dumps(line), flush=True)
            if check is connect and not line["ok"]:
                return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--zcp", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--url", help="a server of the folder on HTTP; one on stdio is started without it")
    asked = parser.parse_args()
    if version("mcp").startswith("1."):
        from client_v1 import Client
    else:
        from client_v2 import Client
    transport = "http" if asked.url else "stdio"
    server = Server(transport, asked.url or asked.zcp, asked.zcp, asked.folder.resolve())
    asyncio.run(perform(Client(server)))


if __name__ == "__main__":
    sys.exit(main())
