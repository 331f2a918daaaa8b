"""The table of methods in Rust against the official maps: who may send what in which revision."""

import re

from mcp_types import methods
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

EXPERIMENT = "an experiment of this revision, which the official maps leave out"
EXTENSION = "a method of an extension, and not of the core"

# By (revision, sender, method): what differs by design, and why.
BY_DESIGN = {
    ("2025-11-25", "client", "tasks/get"): EXPERIMENT,
    ("2025-11-25", "client", "tasks/cancel"): EXPERIMENT,
    ("2025-11-25", "client", "tasks/list"): EXPERIMENT,
    ("2025-11-25", "client", "tasks/result"): EXPERIMENT,
    ("2025-11-25", "server", "notifications/tasks/status"): EXPERIMENT,
    ("2026-07-28", "client", "tasks/get"): EXTENSION,
    ("2026-07-28", "client", "tasks/cancel"): EXTENSION,
    ("2026-07-28", "client", "tasks/update"): EXTENSION,
    ("2026-07-28", "server", "notifications/tasks"): EXTENSION,
    ("2026-07-28", "client", "skills/list"): EXTENSION,
    ("2026-07-28", "client", "skills/get"): EXTENSION,
    ("2026-07-28", "client", "resources/directory/read"): EXTENSION,
}

ROW = re.compile(
    r'(?:request|notice)\(\s*Method::\w+,\s*"([^"]+)",\s*Side::(\w+),\s*(\w+),\s*([\w()]+),?\s*\)'
    r'(?:\s*\.(?!server_only)\w+\([^)]*\))*(?:\s*\.server_only\((\w+)\))?'
)
SENDERS = {"Client": ["client"], "Server": ["server"], "Both": ["client", "server"]}
OFFICIAL = {
    "client": [methods.CLIENT_REQUESTS, methods.CLIENT_NOTIFICATIONS],
    "server": [methods.SERVER_REQUESTS, methods.SERVER_NOTIFICATIONS],
}


def differences(source):
    ours, theirs = set(rows(source)), set(official())
    found = {entry: "is in our table only" for entry in ours - theirs}
    found |= {entry: "is missing from our table" for entry in theirs - ours}
    for entry in sorted(found.keys() - BY_DESIGN.keys()):
        revision, sender, method = entry
        yield f"{revision}: {method} from the {sender} {found[entry]}"
    for revision, sender, method in sorted(BY_DESIGN.keys() - found.keys()):
        yield f"{revision}: {method} from the {sender} no longer differs: take it from BY_DESIGN"


def rows(source):
    """(revision, sender, method) for each that a row of `METHODS` allows."""
    sessions_only = re.search(r"const SESSIONS_ONLY: .* = (.*);", source)[1]
    block = re.search(r"const METHODS: .*?\n\];", source, re.DOTALL)[0]
    found = ROW.findall(block)
    written = len(re.findall(r"(?:request|notice)\(", block))
    assert len(found) == written, "a row of METHODS is written in a way not read here"
    for method, sender, since, until, server_only in found:
        until = date(sessions_only if until == "SESSIONS_ONLY" else until)
        for revision in KNOWN_PROTOCOL_VERSIONS:
            if date(since) <= revision < (until or "9"):
                only = server_only and date(server_only) <= revision
                senders = ["server"] if only else SENDERS[sender]
                yield from ((revision, who, method) for who in senders)


def date(revision):
    """`V2025_11_25`, alone or in `Some(..)`, as a date; `None` as nothing."""
    year = re.search(r"V(\d{4})_(\d\d)_(\d\d)", revision)
    return "-".join(year.groups()) if year else None


def official():
    for sender, maps in OFFICIAL.items():
        for entries in maps:
            yield from ((revision, sender, method) for method, revision in entries)
