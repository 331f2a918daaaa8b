"""The targets, as a table, and whether the results meet them."""

import collections.abc
import dataclasses

from . import units
from .rows import GROWN_SESSIONS, GROWN_TOOLS

PEERS = ("rmcp-default", "rmcp-best", "turbomcp", "pmcp", "python", "typescript")


@dataclasses.dataclass(frozen=True)
class Figure:
    """One median: of a server, in a cell. More than one server means the best of them."""

    cell: str
    key: str
    servers: tuple
    show: collections.abc.Callable
    less_is_better: bool = False

    def value(self, results):
        """The value and whose it is, or nothing."""
        found = [(results.median(self.cell, server, self.key), server) for server in self.servers]
        found = [pair for pair in found if pair[0] is not None]
        if not found:
            return None
        return min(found) if self.less_is_better else max(found)

    def is_noisy(self, results):
        found = self.value(results)
        return found is not None and results.is_noisy(self.cell, found[1])


@dataclasses.dataclass(frozen=True)
class Target:
    row: str
    title: str
    ours: Figure
    # What ours is divided by; without it the bound is for our own figure.
    theirs: Figure | None
    bound: float
    # Whether the bound is the least or the most.
    at_least: bool
    # Some are only shown beside another.
    is_graded: bool = True
    # Shown beside ours, where the bound is for our own figure.
    beside: tuple = ()


@dataclasses.dataclass(frozen=True)
class Verdict:
    row: str
    title: str
    wanted: str
    ours: str
    theirs: str
    ratio: str
    # `met`, `not met`, `shown`, `not measured`, or `noisy`: the machine was too busy to say.
    state: str


def rate(cell, *servers):
    return Figure(cell, "per_second", servers, units.per_second)


def faster(row, title, cell, ours, theirs, bound, **more):
    """Our rate is so many times another's."""
    theirs = (theirs,) if isinstance(theirs, str) else theirs
    return Target(row, title, rate(cell, ours), rate(cell, *theirs), bound, True, **more)


def slowest_hundredth(title, cell):
    def figure(*servers):
        return Figure(cell, "p99_us", servers, units.microseconds, less_is_better=True)

    return Target("latency", title, figure("zcp-best"), figure(*PEERS), 1.0, False)


def instructions(wire, bound):
    cell = f"instructions {wire}"
    ours = Figure(cell, "instructions", ("zcp-default",), units.count)
    limit = "limit-stdio" if wire == "stdio" else "limit-hyper-typed"
    beside = tuple(
        Figure(cell, "instructions", (server,), units.count) for server in ("rmcp-default", limit)
    )
    return Target(
        "instructions", f"instructions for an echo, {wire}", ours, None, bound, False, beside=beside
    )


def memory(what, bound):
    def figure(*servers):
        key = f"kb_per_{what}"
        return Figure("memory", key, servers, units.kilobytes, less_is_better=True)

    title = f"memory of an open {what}"
    return Target(
        "memory", title, figure("zcp-default"), None, bound, False, beside=(figure(*PEERS),)
    )


def kept_memory(store, name):
    """What an idle session takes of the process, when its state is elsewhere."""

    def figure(store):
        cell = f"durability memory {store}"
        return Figure(cell, "kb_per_session", ("zcp-default",), units.kilobytes)

    title = f"memory of an idle session with state in {name}"
    return Target("durability", title, figure(store), None, 4.0, False, beside=(figure("memory"),))


def flat(what, sizes, key, prefix, show):
    """What the most cost is at most a tenth more than what the fewest cost."""

    def figure(size):
        return Figure(f"{prefix} {what} {size}", key, ("zcp-default",), show)

    unit = "instructions" if key == "instructions" else "CPU time"
    title = f"{unit} of an echo with {sizes[-1]:,} {what}, beside {sizes[0]:,}"
    return Target("growth", title, figure(sizes[-1]), figure(sizes[0]), 1.1, False)


def startup(key, show, server):
    return Figure("startup", key, (server,), show, less_is_better=True)


ECHO, SESSION, LIST = "echo modern 32", "echo session 32", "list modern 32"
LARGE, ESCAPED = "echo64k modern 32", "echo64k-escaped modern 32"

TARGETS = (
    faster("echo", "echo, default builds", ECHO, "zcp-default", "rmcp-default", 3.0),
    faster("echo", "echo, best builds", ECHO, "zcp-best", "rmcp-best", 2.2),
    faster("echo", "echo beside the limit", ECHO, "zcp-default", "limit-hyper-typed", 0.8),
    faster(
        "echo",
        "echo beside the limit, our best build",
        ECHO,
        "zcp-best",
        "limit-hyper-typed",
        0.8,
        is_graded=False,
    ),
    faster(
        "session", "echo in a session, default builds", SESSION, "zcp-default", "rmcp-default", 3.0
    ),
    faster("session", "echo in a session, best builds", SESSION, "zcp-best", "rmcp-best", 2.2),
    faster("echo64k", "64 KiB echo, plain", LARGE, "zcp-best", "rmcp-best", 3.0),
    faster("echo64k", "64 KiB echo, with escapes", ESCAPED, "zcp-best", "rmcp-best", 3.0),
    faster("list", "list of 100 tools", LIST, "zcp-best", "rmcp-best", 5.0),
    faster("list", "list beside the limit", LIST, "zcp-best", "limit-hyper-prepared", 0.85),
    instructions("modern", 35_000),
    instructions("session", 35_000),
    instructions("stdio", 12_000),
    faster(
        "stdio", "10,000 pipelined calls", "stdio pipelined", "zcp-default", "rmcp-default", 10.0
    ),
    faster("sessions", "sessions opened and closed", "sessions 32", "zcp-best", PEERS, 1.5),
    memory("session", 1.0),
    memory("stream", 8.0),
    Target(
        "websocket",
        "WebSocket echo beside HTTP",
        rate("websocket ws 32", "zcp-default"),
        rate("websocket http 32", "zcp-default"),
        1.5,
        True,
    ),
    Target(
        "websocket",
        "WebSocket echo beside HTTP, our best build",
        rate("websocket ws 32", "zcp-best"),
        rate("websocket http 32", "zcp-best"),
        1.5,
        True,
        is_graded=False,
    ),
    Target(
        "startup",
        "start to first answer beside the limit",
        startup("milliseconds", units.milliseconds, "zcp-default"),
        startup("milliseconds", units.milliseconds, "limit-hyper-typed"),
        1.5,
        False,
    ),
    Target(
        "startup",
        "memory when idle",
        startup("resident_kb", units.megabytes, "zcp-default"),
        None,
        8 * 1024,
        False,
        beside=(startup("resident_kb", units.megabytes, "rmcp-default"),),
    ),
    slowest_hundredth("p99 of echo, 32 connections", ECHO),
    slowest_hundredth("p99 of echo in a session, 32 connections", SESSION),
    slowest_hundredth("p99 of list, 32 connections", LIST),
    slowest_hundredth("p99 of 64 KiB echo, 32 connections", LARGE),
    slowest_hundredth("p99 of echo, 256 connections", "echo modern 256"),
    slowest_hundredth("p99 of echo in a session, 256 connections", "echo session 256"),
    slowest_hundredth("p99 of list, 256 connections", "list modern 256"),
    slowest_hundredth("p99 of 64 KiB echo, 256 connections", "echo64k modern 256"),
    kept_memory("sqlite", "SQLite"),
    kept_memory("redis", "Redis"),
    flat("tools", GROWN_TOOLS, "server_us", "growth", units.microseconds),
    flat("tools", GROWN_TOOLS, "instructions", "growth instructions", units.count),
    flat("sessions", GROWN_SESSIONS, "server_us", "growth", units.microseconds),
    flat("sessions", GROWN_SESSIONS, "instructions", "growth instructions", units.count),
)


def verdicts(results, rows=None):
    """What became of each target of some rows, or of all."""
    return [verdict(target, results) for target in TARGETS if rows is None or target.row in rows]


def verdict(target, results):
    ours = target.ours.value(results)
    others = (target.theirs,) if target.theirs else target.beside
    found = [figure.value(results) for figure in others]
    theirs = found[0] if found else None
    pairs = [shown(*pair) for pair in zip(others, found) if pair[1]]
    return Verdict(
        row=target.row,
        title=target.title,
        wanted=wanted(target),
        ours=shown(target.ours, ours),
        theirs=", ".join(pairs) or "–",
        ratio=units.ratio(ours[0] / theirs[0]) if ours and theirs and theirs[0] else "",
        state=state(target, measured(target, ours, theirs), results),
    )


def measured(target, ours, theirs):
    """The figure the bound is for."""
    if ours is None or (target.theirs and not theirs):
        return None
    return ours[0] / theirs[0] if target.theirs else ours[0]


def state(target, value, results):
    if value is None:
        return "not measured"
    if not target.is_graded:
        return "shown"
    graded = [figure for figure in (target.ours, target.theirs) if figure]
    if any(figure.is_noisy(results) for figure in graded):
        return "noisy"
    is_met = value >= target.bound if target.at_least else value <= target.bound
    return "met" if is_met else "not met"


def wanted(target):
    sign = "≥" if target.at_least else "≤"
    if target.theirs:
        return f"{sign} {target.bound:g}x"
    return f"{sign} {target.ours.show(target.bound)}"


def shown(figure, found):
    if found is None:
        return "–"
    value, server = found
    return f"{figure.show(value)} ({server})"
