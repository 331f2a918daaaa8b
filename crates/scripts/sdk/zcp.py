"""zcp for Python: what a script tells the server, and what it asks.

    import zcp

    name = zcp.args().get("name", "world")
    if not zcp.confirm("sure", f"Greet {name}?"):
        zcp.fail(f"nobody wants to greet {name}")
    zcp.progress(1, 2, "Looking for the words")
    print(f"Hello {name}")

Ask first and act after: a script may be ended at a question and run again from the top
with the answer in hand. Run by hand, without a server, what is told goes to stderr and
every question raises `Unable`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from functools import lru_cache
from typing import Any, BinaryIO, Callable, Dict, List, NoReturn, Optional, Union
from urllib.parse import quote


class NoAnswer(Exception):
    """A question without an answer."""


class Declined(NoAnswer):
    """The user said no."""


class Cancelled(NoAnswer):
    """The user went away without an answer."""


class Unable(NoAnswer):
    """There is nobody to ask: the client has no way to, or there is no server."""


@lru_cache(maxsize=None)
def args() -> Dict[str, Any]:
    """The arguments, from stdin. Without them there, from ARG_NAME as `name`."""
    try:
        given = None if sys.stdin.isatty() else json.loads(sys.stdin.buffer.read())
    except ValueError:
        given = None
    if isinstance(given, dict):
        return given
    return {
        name[4:].lower(): _value(text)
        for name, text in os.environ.items()
        if name.startswith("ARG_")
    }


def progress(done: float, total: Optional[float] = None, message: str = "") -> None:
    """Tells how far the call is: `progress(3, 10, "Reading")`."""
    amount = f"{done}" if total is None else f"{done}/{total}"
    line = f"progress {amount} {message}".rstrip()
    _tell(line, line)


def log(level: str, data: Any) -> None:
    """Logs a text, or anything that JSON can hold, at `debug`, `info`, `warning`, ..."""
    _tell(f"log {level} {_json(data)}", f"{level}: {data}")


def ask(key: str, message: str, schema: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Asks the user for a form and returns its content.

    Without a schema the form has one text, `answer`. Raises `Declined`, `Cancelled` or
    `Unable`.
    """
    if schema is None:
        answer = {"answer": {"type": "string"}}
        schema = {"type": "object", "properties": answer, "required": ["answer"]}
    return _agree("ask", key, {"message": message, "schema": schema})


def confirm(key: str, message: str) -> bool:
    """Whether the user says yes. Raises `Unable`."""
    try:
        ask(key, message, {"type": "object", "properties": {}})
    except (Declined, Cancelled):
        return False
    return True


def visit(key: str, message: str, url: str) -> None:
    """Asks the user to open a page. Raises `Declined`, `Cancelled` or `Unable`."""
    _agree("visit", key, {"message": message, "url": url})


def sample(key: str, prompt: Union[str, Dict[str, Any]], max_tokens: int = 1000) -> str:
    """Asks the client's model and returns its text. Raises `Unable`.

    For more than a prompt, give the parameters: `{"prompt": ..., "system": ...}` or those
    of `sampling/createMessage`.
    """
    content = sample_raw(key, prompt, max_tokens).get("content", [])
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(block["text"] for block in blocks if "text" in block)


def sample_raw(
    key: str, prompt: Union[str, Dict[str, Any]], max_tokens: int = 1000
) -> Dict[str, Any]:
    """As `sample`, but returns the whole result: role, content, model and the rest."""
    params = {"prompt": prompt} if isinstance(prompt, str) else prompt
    return _question("sample", key, {"maxTokens": max_tokens, **params})


def roots(key: str = "roots") -> List[Dict[str, Any]]:
    """The client's folders, each with its `uri` and perhaps a `name`. Raises `Unable`."""
    return _question("roots", key).get("roots", [])


def once(key: str, function: Callable[[], Any]) -> Any:
    """Runs a function once, however often the script runs for this call.

    The value must be one JSON can hold, and comes back as JSON gives it back, in the first
    run too.
    """
    kept = _question("once", key) if os.environ.get("ZCP_OUT") else {}
    if "value" in kept:
        return kept["value"]
    value = _json(function())
    _tell(f"keep {_word(key)} {value}")
    return json.loads(value)


def detach() -> None:
    """Says that nobody needs to wait: the call goes on as a task."""
    _tell("detach")


def updated(uri: str) -> None:
    """Tells whoever subscribed that a resource changed."""
    _tell(f"updated {uri}", f"updated {uri}")


def text(words: str) -> None:
    """Adds a text to the answer."""
    _tell(f"text {_json(str(words))}", str(words))


def file(path: Union[str, os.PathLike[str]], mime: str = "") -> None:
    """Adds a file to the answer."""
    # The server does not follow the script's `chdir`.
    line = f"file {os.path.abspath(path)} {mime}".rstrip()
    _tell(line, line)


def link(uri: str, name: str = "") -> None:
    """Adds a link to the answer."""
    line = f"link {uri.replace(' ', '%20')} {name}".rstrip()
    _tell(line, line)


def fail(message: str) -> NoReturn:
    """Ends the script: the call failed, and this is why."""
    _tell(f"error {message}", f"error: {message}")
    sys.exit(1)


# One thread at a time, so that lines do not mix and every question gets its own answer.
_lock = threading.RLock()


def _tell(line: str, shown: str = "") -> None:
    """Sends one line, or shows it when there is no server."""
    if not os.environ.get("ZCP_OUT"):
        if shown:
            print(shown, file=sys.stderr, flush=True)
        return
    left = (" ".join(line.splitlines()) + "\n").encode("utf-8", "replace")
    with _lock:
        while left:
            left = left[os.write(_out(), left) :]


def _question(verb: str, key: str, body: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    if not os.environ.get("ZCP_OUT") or not os.environ.get("ZCP_IN"):
        raise Unable(f"no server to answer `{verb} {key}`")
    with _lock:
        _tell(f"{verb} {_word(key)}" + (f" {_json(body)}" if body else ""))
        line = _in().readline()
    answer = json.loads(line) if line else {"error": "the server went away"}
    if "error" in answer:
        raise Unable(str(answer["error"]))
    return answer


def _agree(verb: str, key: str, body: Dict[str, Any]) -> Dict[str, Any]:
    answer = _question(verb, key, body)
    if answer.get("action") == "accept":
        return answer.get("content") or {}
    if answer.get("action") == "decline":
        raise Declined(f"the user declined `{key}`")
    raise Cancelled(f"the user cancelled `{key}`")


@lru_cache(maxsize=None)
def _out() -> int:
    return os.open(os.environ["ZCP_OUT"], os.O_WRONLY | getattr(os, "O_BINARY", 0))


@lru_cache(maxsize=None)
def _in() -> BinaryIO:
    return open(os.environ["ZCP_IN"], "rb")


def _word(key: str) -> str:
    """A key as one word, and never two keys as the same word."""
    return re.sub(r"[%\s]", lambda found: quote(found[0]), key)


def _json(value: Any) -> str:
    """What JSON cannot hold, such as a path or a date, is sent as its text."""
    return json.dumps(value, default=str)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
