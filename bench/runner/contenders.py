"""Who serves a folder of scripts: us, mcp-bash, FastMCP; and the bare spawn beside them."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

from . import folders, machine, places

# The newest of these whose own dependencies can be had, as in tests/interop.
FASTMCP = "fastmcp>=4.1,<=4.1.4"
PARTS = places.BENCH / "folder"
MCP_BASH = "--mcp-bash DIR, or the variable MCP_BASH, says where a copy of mcp-bash is"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Missing(RuntimeError):
    """Something that has to be there first."""


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    about: str
    # From a folder that was made for it: what starts the server, with which variables.
    command: tuple
    env: dict
    # Makes the folder: where, the server's name, the scripts.
    make: object
    # What it must be: the name it gives itself, the program that runs.
    said: str
    program: str
    # Whether fewer calls, passes and starts must do.
    is_slow: bool = False
    # Whether what it remembers of the folder is thrown away before each start.
    forgets: bool = False
    # Whether its calls are measured, beside its start.
    is_called: bool = True

    def start(self, folder):
        """The command and the variables, with the folder filled in."""
        command = [word.replace("{folder}", str(folder)) for word in self.command]
        env = {name: value.replace("{folder}", str(folder)) for name, value in self.env.items()}
        return command, env


def all_of(zcp, mcp_bash, wanted):
    """Those that are wanted, or all; fails with what is missing for them."""
    made = list(ours(zcp))
    if any(name.startswith("mcp-bash") for name in wanted or ("mcp-bash",)):
        made += mcp_bash_ones(mcp_bash)
    if "fastmcp" in (wanted or ("fastmcp",)):
        made.append(fastmcp())
    return [contender for contender in made if not wanted or contender.name in wanted]


NAMES = (
    "zcp-comments",
    "zcp-sidecars",
    "zcp-project",
    "mcp-bash-first",
    "mcp-bash-again",
    "fastmcp",
)


def ours(zcp):
    kinds = (
        ("zcp-comments", "comments say what each script does", folders.with_comments, True),
        ("zcp-sidecars", "a `.meta.json` beside each script", folders.with_sidecars, False),
        ("zcp-project", "the project that mcp-bash is given", folders.as_project, True),
    )
    program = pathlib.Path(zcp).resolve()
    if not program.exists():
        raise Missing(f"there is no {zcp}: leave out --no-build, or say --zcp PROGRAM")
    command = (str(program), "serve", "{folder}", "--stdio")
    for name, about, make, is_called in kinds:
        yield Contender(
            name=name,
            about=about,
            command=command,
            env={},
            make=make,
            said=f"bench-{name}",
            program=str(program),
            is_called=is_called,
        )


def mcp_bash_ones(copy):
    if not copy:
        raise Missing(MCP_BASH)
    program = pathlib.Path(copy).resolve() / "bin" / "mcp-bash"
    if not program.exists():
        raise Missing(f"there is no {program}; {MCP_BASH}")
    if not shutil.which("jq"):
        raise Missing("mcp-bash needs jq: sudo apt-get install -y jq")
    version = (program.parent.parent / "VERSION").read_text().strip()
    shared = {
        "command": (str(program),),
        "env": {
            "MCPBASH_PROJECT_ROOT": "{folder}",
            "MCPBASH_TOOL_ALLOWLIST": "*",
            # Otherwise it gives up a first start with many tools.
            "MCPBASH_DEFAULT_TOOL_TIMEOUT": "900",
        },
        "make": folders.as_project,
        "said": "bench-mcp-bash",
        "program": str(pathlib.Path(shutil.which("bash")).resolve()),
        "is_slow": True,
    }
    return [
        Contender(
            "mcp-bash-first", f"{version}, no cache yet", **shared, forgets=True, is_called=False
        ),
        Contender("mcp-bash-again", f"{version}, with its cache", **shared),
    ]


def fastmcp():
    """Installed once, into a folder of its own."""
    home = places.target() / "scripts" / "fastmcp"
    python, stamp = home / "bin" / "python", home / "versions"
    wanted = f"{sys.version.split()[0]} {FASTMCP}"
    if not stamp.exists() or stamp.read_text() != wanted:
        install(home, python)
        stamp.write_text(wanted)
    ask = "from importlib.metadata import version; print(version('fastmcp'))"
    version = machine.first_line([str(python), "-c", ask])
    return Contender(
        name="fastmcp",
        about=f"{version}, a Python function starts each script",
        command=(str(python), str(PARTS / "fastmcp_server.py"), "{folder}/tools", "bench-fastmcp"),
        env={},
        make=folders.with_comments,
        said="bench-fastmcp",
        program=str(python.resolve()),
    )


def install(home, python):
    shutil.rmtree(home, ignore_errors=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", FASTMCP]
    for command in ([sys.executable, "-m", "venv", str(home)], pip):
        if subprocess.run(command, check=False).returncode != 0:
            raise Missing(f"{FASTMCP} cannot be installed")


def environment(contender_env, temporary):
    """The same for everybody, and nothing of who runs this."""
    home = {"HOME": str(temporary), "TMPDIR": str(temporary), "LANG": "C.UTF-8", "PATH": PATH}
    return {**home, **contender_env}


class Spawn:
    """The bare limit: a script is started, its output read, its end waited for."""

    name, is_slow = "limit-spawn", False

    def __init__(self, folder):
        compiler = shutil.which("cc")
        self.about = "a C program" if compiler else "a Python program, for want of a C compiler"
        self.about += " that only starts the script"
        if compiler:
            made = str(folder / "spawn")
            command = [compiler, "-O2", "-pthread", "-o", made, str(PARTS / "spawn.c")]
            if subprocess.run(command, check=False).returncode != 0:
                raise Missing("spawn.c does not compile")
            self.command = [made]
        else:
            self.command = [sys.executable, str(PARTS / "spawn.py")]

    def run(self, script, count, together, env):
        """Seconds of all, microseconds of each."""
        command = [*self.command, str(script), str(count), str(together)]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"the bare spawn failed: {ended.stderr[:200]}")
        found = json.loads(ended.stdout)
        if found["wrong"]:
            raise RuntimeError(f"{found['wrong']} scripts did not say hello")
        return found["seconds"], found["micros"]


def program_of(pid):
    return str(pathlib.Path(os.readlink(f"/proc/{pid}/exe")).resolve())
