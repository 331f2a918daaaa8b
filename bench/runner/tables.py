"""Full tables: every row, every server, in Markdown."""

import dataclasses

from . import units
from .rows import GROWN_SESSIONS, GROWN_TOOLS
from .stores import NAMES as STORES

BASE = "rmcp-default"


@dataclasses.dataclass(frozen=True)
class Column:
    title: str
    key: str
    show: object


CALLS = (
    Column("calls a second", "per_second", units.per_second),
    Column("p50", "p50_us", units.microseconds),
    Column("p99", "p99_us", units.microseconds),
    Column("p99.9", "p999_us", units.microseconds),
    Column("server CPU a call", "server_us", units.microseconds),
)
PIPELINED = (CALLS[0], CALLS[4])
STARTUP = (
    Column("time to first answer", "milliseconds", units.milliseconds),
    Column("memory when idle", "resident_kb", units.megabytes),
)
SESSIONS = (
    Column("sessions a second", "per_second", units.per_second),
    Column("p99", "p99_us", units.microseconds),
    Column("server CPU a session", "server_us", units.microseconds),
)
MEMORY = (
    Column("opened", "sessions", units.count),
    Column("alive of those probed", "alive", str),
    Column("memory of a session", "kb_per_session", units.kilobytes),
    Column("memory of a stream", "kb_per_stream", units.kilobytes),
)

# Title, cell, columns, and the column by which servers are compared.
TABLES = (
    ("Echo, 2026-07-28, 32 connections", "echo modern 32", CALLS, "per_second"),
    ("Echo, 2026-07-28, 256 connections", "echo modern 256", CALLS, "per_second"),
    ("Echo in sessions, 2025-11-25, 32 connections", "echo session 32", CALLS, "per_second"),
    ("Echo in sessions, 2025-11-25, 256 connections", "echo session 256", CALLS, "per_second"),
    ("64 KiB echo, plain, 32 connections", "echo64k modern 32", CALLS, "per_second"),
    ("64 KiB echo, plain, 256 connections", "echo64k modern 256", CALLS, "per_second"),
    (
        "64 KiB echo, full of escapes, 32 connections",
        "echo64k-escaped modern 32",
        CALLS,
        "per_second",
    ),
    ("List of 100 tools, 32 connections", "list modern 32", CALLS, "per_second"),
    ("List of 100 tools, 256 connections", "list modern 256", CALLS, "per_second"),
    ("Echo over WebSocket, 32 connections", "websocket ws 32", CALLS, "per_second"),
    ("Echo over HTTP, measured beside it", "websocket http 32", CALLS, "per_second"),
    ("stdio, 10,000 calls without waiting", "stdio pipelined", PIPELINED, "per_second"),
    ("stdio, one call after another", "stdio sequential", CALLS, "per_second"),
    ("Sessions opened and closed, 32 connections", "sessions 32", SESSIONS, "per_second"),
    ("Memory of open sessions and streams", "memory", MEMORY, None),
    ("Start", "startup", STARTUP, None),
)


def all_tables(results):
    """Every table that has anything in it."""
    made = [calls_table(results, *table) for table in TABLES if results.names(table[1])]
    made += [instructions_table(results), growth_table(results), durability_table(results)]
    return "\n\n".join(table for table in made if table)


def table(title, head, lines):
    rule = ["---"] + ["---:"] * (len(head) - 1)
    rows = ["| " + " | ".join(line) + " |" for line in [head, rule, *lines]]
    return f"### {title}\n\n" + "\n".join(rows)


def calls_table(results, title, cell, columns, compared):
    base = results.median(cell, BASE, compared) if compared else None
    head = ["server", *[column.title for column in columns], *([f"beside {BASE}"] if base else [])]
    lines = []
    for server in results.names(cell):
        noisy = "\\*" if results.is_noisy(cell, server) else ""
        line = [server + noisy] + [show(results, cell, server, column) for column in columns]
        if base:
            line.append(units.ratio(results.median(cell, server, compared) / base))
        lines.append(line)
    return table(title, head, lines)


def show(results, cell, server, column):
    if column.key == "alive":
        return alive(results.samples(cell, server)[0])
    value = results.median(cell, server, column.key)
    return "–" if value is None else column.show(value)


def alive(sample):
    def part(what):
        probed = sample.get(f"{what}_probed", 0)
        return f"{sample.get(f'{what}_alive', 0)} of {probed} {what}"

    return f"{part('sessions')}, {part('streams')}"


def instructions_table(results):
    wires = ("modern", "session", "stdio")
    cells = [f"instructions {wire}" for wire in wires]
    servers = list(dict.fromkeys(name for cell in cells for name in results.names(cell)))
    if not servers:
        return ""
    lines = [[server, *[counted(results, cell, server) for cell in cells]] for server in servers]
    head = ["server", "HTTP, 2026-07-28", "HTTP, a session of 2025-11-25", "stdio, 2025-11-25"]
    return table("Instructions for one echo", head, lines)


def counted(results, cell, server):
    value = results.median(cell, server, "instructions")
    return "–" if value is None else units.count(value)


def growth_table(results):
    lines = [
        line
        for what, sizes in (("tools", GROWN_TOOLS), ("open sessions", GROWN_SESSIONS))
        for line in growth_lines(results, what, sizes)
    ]
    head = ["zcp-default with", "server CPU a call", "instructions a call"]
    return table("Growth", head, lines) if lines else ""


def growth_lines(results, what, sizes):
    kind = what.split()[-1]
    for size in sizes:
        time = results.median(f"growth {kind} {size}", "zcp-default", "server_us")
        count = counted(results, f"growth instructions {kind} {size}", "zcp-default")
        if time is not None:
            yield [f"{size:,} {what}", units.microseconds(time), count]


# What is measured of a store, and how it is shown: a part of the row, a figure, its unit.
KEPT = (
    ("echo", "echo", "per_second", units.per_second),
    ("its p99", "echo", "p99_us", units.microseconds),
    ("echo in a session", "session", "per_second", units.per_second),
    ("its p99", "session", "p99_us", units.microseconds),
    ("sessions opened and closed", "sessions", "per_second", units.per_second),
    ("its p99", "sessions", "p99_us", units.microseconds),
    ("tasks begun", "tasks", "per_second", units.per_second),
    ("its p99", "tasks", "p99_us", units.microseconds),
    ("10,000 events said again", "replay", "milliseconds", units.milliseconds),
    ("memory of an idle session", "memory", "kb_per_session", units.kilobytes),
)


def durability_table(results):
    lines = [durability_line(results, *row) for row in KEPT]
    lines = [line for line in lines if any(cell != "–" for cell in line[1:])]
    head = ["zcp-default with state in", "memory", "SQLite", "Redis"]
    return table("What durability costs", head, lines) if lines else ""


def durability_line(results, title, what, key, show):
    found = [results.median(f"durability {what} {store}", "zcp-default", key) for store in STORES]
    return [title, *["–" if value is None else show(value) for value in found]]
