"""Instructions a server spends on one `echo`, counted by callgrind: user space, one connection."""

import pathlib
import shutil
import subprocess
import tempfile

from .servers import Running

FEW, MANY = 300, 1300
WARM_STDIO = 50
INSTALL = "sudo apt-get install -y valgrind"
# The wires that are counted, and the era of their clients.
WIRES = {"modern": "modern", "session": "session", "stdio": "session"}


class Failed(RuntimeError):
    """The count is worth nothing."""


def require_valgrind():
    if not shutil.which("valgrind"):
        raise Failed(f"valgrind is missing: {INSTALL}")


def per_echo(load, server, wire, env=None):
    """The difference of two runs, so that what starting and ending cost does not count."""
    require_valgrind()
    totals = []
    for calls in (FEW, MANY):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            count = count_stdio if wire == "stdio" else count_http
            count(load, server, wire, calls, callgrind(out), env)
            totals.append(total(out))
    return round((totals[1] - totals[0]) / (MANY - FEW))


def callgrind(out):
    return ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}"]


def count_http(load, server, wire, calls, wrap, env):
    with Running(server, wire, wrap, env) as running:
        check(load.count(running, WIRES[wire], calls))


def count_stdio(load, server, wire, calls, wrap, _env):
    check(load.stdio(server, WIRES[wire], calls, 1, WARM_STDIO, pipelined=False, wrap=wrap))


def check(report):
    if report["errors"]:
        raise Failed(report["first_error"])


def total(out):
    for line in out.read_text().splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    raise Failed("callgrind wrote no total")


def per_echo_after(load, server, wire, prepare, env=None):
    """In one run, counting only after `prepare(running)`, for what takes long to prepare."""
    require_valgrind()
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        with Running(server, wire, callgrind(out), env) as running:
            if prepare:
                prepare(running)
            check(load.count(running, WIRES[wire], FEW))
            tell(running, "--zero")
            check(load.count(running, WIRES[wire], MANY - FEW))
            tell(running, "--dump")
        return round(total(out.with_name("out.1")) / (MANY - FEW))


def tell(running, what):
    """Speaks to callgrind while it runs."""
    command = ["callgrind_control", what, str(running.pid)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        raise Failed(f"callgrind_control {what} failed")
