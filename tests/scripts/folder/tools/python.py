"""Does one of the things that scripts can.

Args:
    do (str): Which.
    about (str, optional): A file or an address to do it with.
"""

import json
import sys
import time
from pathlib import Path

import zcp

about = zcp.args().get("about", "")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def progress():
    zcp.progress(1, 4, "begun")
    time.sleep(0.1)
    zcp.progress(2.5, 4)
    time.sleep(0.1)
    zcp.progress(4, 4, "all done")
    print("told")


def log():
    zcp.log("info", "starting")
    zcp.log("warning", {"disk": 91})
    print("told")


def content():
    print('{"city":"Oslo"}')
    zcp.text("and more")
    zcp.file("files/dot.png")
    zcp.file("files/tone.wav")
    zcp.file(Path("files/note.txt"))
    zcp.link("https://example.com/map", "Map")


def once():
    with open(about, "a") as file:
        file.write("run\n")
    runs = zcp.once("runs", lambda: len(Path(about).read_text().splitlines()))
    zcp.confirm("sure", "Sure?")
    print(runs)


def detach():
    zcp.detach()
    time.sleep(0.5)
    print("done")


def leave():
    print("half done")
    print("no such city", file=sys.stderr)
    sys.exit(3)


THINGS = {
    "progress": progress,
    "log": log,
    "content": content,
    "print": lambda: sys.stdout.buffer.write(Path(about).read_bytes()),
    "ask": lambda: print(json.dumps(zcp.ask("name", "Your name?", NAME))),
    "confirm": lambda: print("yes" if zcp.confirm("sure", "Sure?") else "no"),
    "visit": lambda: print(zcp.visit("page", "Please sign.", about) or "visited"),
    "sample": lambda: print(zcp.sample("joke", "A joke, please.", 50)),
    "roots": lambda: print(*(root["uri"] for root in zcp.roots()), sep="\n"),
    "once": once,
    "twice": lambda: print(zcp.once("word", lambda: "first"), zcp.once("word", lambda: "second")),
    "updated": lambda: zcp.updated(about),
    "detach": detach,
    "exit": leave,
    "fail": lambda: zcp.fail("Give a city."),
}

try:
    THINGS[zcp.args()["do"]]()
except zcp.NoAnswer as why:
    print(type(why).__name__)
