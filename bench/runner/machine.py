"""The machine: its cores and who is pinned to which, its description, and whether it is quiet."""

import os
import pathlib
import platform
import resource
import shutil
import subprocess
import time

from . import places

QUIET_CORES = 0.2


class Pins:
    """The server has one core for itself and the load generator another, where there are two."""

    def __init__(self):
        cores = sorted(os.sched_getaffinity(0))
        possible = len(cores) >= 2 and shutil.which("taskset")
        self.server = ["taskset", "-c", str(cores[0])] if possible else []
        self.load = ["taskset", "-c", str(cores[1])] if possible else []

    def about(self):
        if self.server:
            return "server and load generator each pinned to a core of its own"
        return "NOT pinned (needs taskset and two cores): figures are rough"


def describe():
    """What a reader must know to place the figures."""
    return {
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "kernel": platform.release(),
        "rustc": first_line(["rustc", "--version"]),
        "pinning": Pins().about(),
    }


def now():
    """The day, and the code that is measured."""
    return f"{time.strftime('%Y-%m-%d', time.gmtime())}, commit {commit()}"


def commit():
    git = ["git", "-C", str(places.ROOT)]
    changed = first_line([*git, "status", "--porcelain", "--untracked-files=no"])
    return first_line([*git, "rev-parse", "--short", "HEAD"]) + (" with changes" if changed else "")


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def first_line(command):
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.partition("\n")[0]


def raise_file_limit():
    """As many open files as allowed; servers inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def busy_seconds():
    """CPU time of the whole machine: user, nice, system, irq, softirq and steal."""
    ticks = [
        int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    ]
    return sum(ticks[column] for column in (0, 1, 2, 5, 6, 7)) / os.sysconf("SC_CLK_TCK")


def wait_until_quiet(patience):
    """Waits until almost nothing runs, but not for ever: a noisy sample is found out later."""
    deadline = time.monotonic() + patience
    while True:
        before, began = busy_seconds(), time.monotonic()
        time.sleep(0.1)
        cores = (busy_seconds() - before) / (time.monotonic() - began)
        if cores < QUIET_CORES or time.monotonic() > deadline:
            return
