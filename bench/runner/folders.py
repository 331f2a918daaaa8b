"""Folders of scripts, the same tools for each server that is compared."""

import json
import os
import sys

# Of the scripts that are called: the ending of each, and its text.
CALLED = {
    "sh": ("sh", "#!/bin/sh\n{about}echo hello\n"),
    "python": ("py", '#!{python}\n{about}print("hello")\n'),
}
ABOUT = "# Greets somebody, as {name} does.\n#\n# @param [name] string   Who to greet.\n"
GREETING = "#!/usr/bin/env bash\n{about}echo \"hello ${{ARG_NAME:-}}\"\n"


class Script:
    def __init__(self, name, ending, text):
        self.name, self.ending, self.text = name, ending, text

    @property
    def file(self):
        return f"{self.name}.{self.ending}"

    def described(self):
        """Its text, with comments that say what it does."""
        return self.filled(ABOUT.format(name=self.name))

    def bare(self):
        return self.filled("")

    def filled(self, about):
        # Not a wrapper that finds an interpreter: the same one for everybody.
        return self.text.format(about=about, python=os.path.realpath(sys.executable))

    def meta(self):
        properties = {"name": {"type": "string", "description": "Who to greet."}}
        return {
            "name": self.name,
            "description": f"Greets somebody, as {self.name} does.",
            "inputSchema": {"type": "object", "properties": properties},
        }


def greetings(count):
    return [Script(f"greet_{number:03}", "sh", GREETING) for number in range(count)]


def called():
    return [Script(f"hello_{kind}", ending, text) for kind, (ending, text) in CALLED.items()]


def with_comments(folder, name, scripts):
    """Scripts that describe themselves; gives the folder of the scripts alone."""
    for script in scripts:
        program(folder / "tools" / script.file, script.described())
    name_in_settings(folder, name)
    return folder / "tools"


def with_sidecars(folder, name, scripts):
    """A `.meta.json` beside each."""
    for script in scripts:
        program(folder / "tools" / script.file, script.bare())
        text(folder / "tools" / f"{script.name}.meta.json", json.dumps(script.meta()))
    name_in_settings(folder, name)


def as_project(folder, name, scripts):
    """As mcp-bash wants it: a folder for each tool."""
    text(folder / "server.d" / "server.meta.json", json.dumps({"name": name, "version": "1.0.0"}))
    for script in scripts:
        home = folder / "tools" / script.name
        program(home / f"tool.{script.ending}", script.bare())
        text(home / "tool.meta.json", json.dumps(script.meta()))


def name_in_settings(folder, name):
    text(folder / "zcp.toml", f'[server]\nname = "{name}"\n')


def program(path, content):
    text(path, content)
    path.chmod(0o755)


def text(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
