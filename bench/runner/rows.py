"""The rows of the benchmark: what each one measures, on which servers, how often."""

import dataclasses

from . import instructions
from .sampling import Group, Lane
from .servers import Running, free_port
from .stores import NAMES as STORES
from .stores import Stores

ROWS = {
    "echo": "one small call, 2026-07-28, 32 connections",
    "session": "the same in sessions of 2025-11-25",
    "echo64k": "64 KiB there and back, plain and full of escapes",
    "list": "a list of 100 tools",
    "instructions": "instructions for one echo, over HTTP and stdio",
    "stdio": "10,000 calls without waiting, and one by one",
    "sessions": "sessions opened and closed a second",
    "memory": "memory of 10,000 idle sessions and of 10,000 open streams",
    "websocket": "echo over WebSocket, beside the same over HTTP",
    "startup": "time to the first answer, memory when idle",
    "latency": "the slowest hundredth, with 32 and 256 connections",
    "growth": "cost of an echo with many tools, and with many open sessions",
    "durability": "what it costs to keep state in memory, in SQLite, in Redis",
}

# Servers whose cost is counted in instructions: the others would take long and tell little.
COUNTED = (
    "zcp-default",
    "zcp-best",
    "rmcp-default",
    "rmcp-best",
    "turbomcp",
    "pmcp",
    "limit-hyper-typed",
    "limit-raw",
    "limit-stdio",
)
COUNTED_QUICK = ("zcp-default", "rmcp-default", "limit-hyper-typed", "limit-stdio")
GROWN_TOOLS = (10, 100, 1_000, 10_000)
GROWN_SESSIONS = (1, 1_000, 100_000)
# Under callgrind, a hundred thousand sessions take minutes to open.
GROWN_SESSIONS_QUICK = (1, 1_000, 10_000)
MANY_OPEN = (10_000, 1_000)
MANY_OPEN_SLOW = (1_000,)


@dataclasses.dataclass
class Settings:
    """How much is measured."""

    passes: int
    seconds: float
    quick: bool

    def passes_of(self, server):
        """Slow servers are sampled less: they are far from any target."""
        return max(1, self.passes // 2) if server.is_slow else self.passes

    @property
    def spare(self):
        """Samples of a server that may be taken again, when the machine was busy."""
        return max(1, self.passes // 2)

    @property
    def patience(self):
        """Seconds to wait for a quiet moment, before each sample."""
        return 0.3 if self.quick else 1.0

    def warm(self, server):
        if server.is_slow:
            return 1.0
        return 0.2 if self.quick else 0.3


class Planner:
    """Makes the groups of some rows, for some servers."""

    def __init__(self, servers, settings, load):
        self.servers, self.settings, self.load = servers, settings, load
        self.stores = Stores()

    def groups(self, rows):
        made = {}
        for row in rows:
            for group in getattr(self, f"row_{row}")():
                # The latency row needs cells that other rows have made.
                if group.lanes:
                    made.setdefault(group.title, group)
        return list(made.values())

    def on(self, wire):
        return [server for server in self.servers if wire in server.wires]

    def called(self, *names):
        return [server for server in self.servers if server.name in names]

    # Calls.

    def row_echo(self):
        return [self.calls("modern", "echo", 32)]

    def row_session(self):
        return [self.calls("session", "echo", 32)]

    def row_echo64k(self):
        return [self.calls("modern", "echo64k", 32), self.calls("modern", "echo64k-escaped", 32)]

    def row_list(self):
        return [self.calls("modern", "list", 32)]

    def row_latency(self):
        kinds = [("modern", "echo"), ("session", "echo"), ("modern", "list"), ("modern", "echo64k")]
        return [
            self.calls(era, operation, connections)
            for connections in (32, 256)
            for era, operation in kinds
        ]

    def calls(self, era, operation, connections):
        cell = f"{operation} {era} {connections}"
        lanes = [
            self.call_lane(cell, server, era, operation, connections) for server in self.on(era)
        ]
        return Group(f"{operation}, {era}, {connections} connections", lanes)

    def call_lane(self, cell, server, era, operation, connections, wire="http", label=""):
        def take(fleet):
            running = fleet.get(server, era)
            return self.calls_once(running, era, operation, connections, wire)

        return self.lane(cell, server, take, label=label)

    def calls_once(self, running, era, operation, connections, wire="http"):
        seconds, warm = self.settings.seconds, self.settings.warm(running.server)
        return self.load.calls(running, era, operation, connections, seconds, warm, wire)

    def lane(self, cell, server, take, **more):
        settings = self.settings
        seconds = settings.seconds + settings.warm(server) + 0.3
        usual = {"passes": settings.passes_of(server), "seconds": seconds, "spare": settings.spare}
        return Lane(cell, server, take, **{**usual, **more})

    def row_websocket(self):
        lanes = []
        for server in self.called("zcp-default", "zcp-best"):
            for wire in ("ws", "http"):
                cell = f"websocket {wire} 32"
                lanes.append(self.call_lane(cell, server, "modern", "echo", 32, wire, wire))
        return [Group("echo over WebSocket and over HTTP, modern, 32 connections", lanes)]

    # Standard input and output.

    def row_stdio(self):
        servers = self.on("stdio")
        pipelined = [self.stdio_lane("stdio pipelined", server, True) for server in servers]
        sequential = [self.stdio_lane("stdio sequential", server, False) for server in servers]
        return [
            Group("echo, stdio, 10,000 calls without waiting", pipelined),
            Group("echo, stdio, one call after another", sequential),
        ]

    def stdio_lane(self, cell, server, pipelined):
        count = 10_000 if pipelined else 4_000
        if server.is_slow:
            count = 2_000
        # Ten thousand calls are soon over: enough rounds for the noise to be seen.
        rounds = 5 if pipelined and not server.is_slow else 1

        def take(_fleet):
            return self.load.stdio(server, "modern", count, rounds, 300, pipelined)

        return self.lane(cell, server, take, seconds=1.8)

    # Sessions, memory, startup.

    def row_sessions(self):
        lanes = [self.sessions_lane(server) for server in self.on("session")]
        return [Group("sessions opened and closed, 32 connections", lanes)]

    def sessions_lane(self, server):
        def take(fleet):
            running = fleet.get(server, "session")
            warm = self.settings.warm(server)
            return self.load.sessions(running, 32, self.settings.seconds, warm)

        return self.lane("sessions 32", server, take)

    def row_memory(self):
        lanes = [self.memory_lane(server) for server in self.on("session")]
        return [Group("memory of open sessions and streams", lanes)]

    def memory_lane(self, server):
        def take(fleet):
            for count in MANY_OPEN_SLOW if server.is_slow else MANY_OPEN:
                with Running(server, "session", fleet.pins.server) as running:
                    report = self.open_streams(running, count)
                if survived(report):
                    break
            return report

        return self.lane(
            "memory", server, take, passes=1, seconds=9, key="kb_per_session", unit="KB a session"
        )

    def open_streams(self, running, count):
        # Some calls first, so that what a server sets up for its first client is there.
        self.load.calls(running, "session", "echo", 1, 0.3, 0)
        report = self.load.open(running, "stream", count)
        return {"errors": 0, **report}

    def row_startup(self):
        lanes = [self.startup_lane(server) for server in self.on("modern")]
        return [Group("start to first answer", lanes)]

    def startup_lane(self, server):
        passes = 3 if server.is_slow else self.settings.passes + 2

        def take(_fleet):
            return self.load.startup(server, free_port())

        return self.lane(
            "startup", server, take, passes=passes, seconds=0.6, key="milliseconds", unit="ms"
        )

    # Instructions.

    def row_instructions(self):
        return [self.instructions_group(wire) for wire in instructions.WIRES]

    def instructions_group(self, wire):
        names = COUNTED_QUICK if self.settings.quick else COUNTED
        servers = [server for server in self.called(*names) if wire in server.wires]
        lanes = [self.instructions_lane(wire, server) for server in servers]
        return Group(f"instructions for one echo, {wire}", lanes)

    def instructions_lane(self, wire, server):
        def take(_fleet):
            return counted(instructions.per_echo(self.load, server, wire))

        return self.instruction_lane(f"instructions {wire}", server, take, seconds=6)

    def instruction_lane(self, cell, server, take, **more):
        return Lane(cell, server, take, passes=1, key="instructions", unit="instructions", **more)

    # Growth.

    def row_growth(self):
        servers = self.called("zcp-default")
        counted_sessions = GROWN_SESSIONS_QUICK if self.settings.quick else GROWN_SESSIONS
        return [
            self.growth("tools", servers, GROWN_TOOLS),
            self.growth_counted("tools", servers, GROWN_TOOLS),
            self.growth("sessions", servers, GROWN_SESSIONS),
            self.growth_counted("sessions", servers, counted_sessions),
        ]

    def growth(self, what, servers, sizes):
        lanes = [self.growth_lane(what, server, size) for server in servers for size in sizes]
        return Group(f"echo with more and more {what}, 32 connections", lanes)

    def growth_lane(self, what, server, size):
        condition = self.condition(what, size)

        def take(fleet):
            running = fleet.get(server, condition.era, condition.env, condition.prepare)
            return self.calls_once(running, condition.era, "echo", 32)

        return self.lane(
            f"growth {what} {size}",
            server,
            take,
            key="server_us",
            unit="us of CPU a call",
            label=f"{size:,} {what}",
        )

    def growth_counted(self, what, servers, sizes):
        lanes = [
            self.growth_counted_lane(what, server, size) for server in servers for size in sizes
        ]
        return Group(f"instructions for one echo with more and more {what}", lanes)

    def growth_counted_lane(self, what, server, size):
        condition = self.condition(what, size)

        def take(_fleet):
            count = instructions.per_echo_after(
                self.load, server, condition.era, condition.prepare, condition.env
            )
            return counted(count)

        # Opening a session takes about a millisecond under callgrind.
        seconds = 4 + (size / 1000 if what == "sessions" else 0)
        cell = f"growth instructions {what} {size}"
        return self.instruction_lane(cell, server, take, seconds=seconds, label=f"{size:,} {what}")

    # Durability.

    def row_durability(self):
        servers = self.called("zcp-default")
        kinds = {
            "echo, 2026-07-28": ("echo", lambda run: self.calls_once(run, "modern", "echo", 32)),
            "echo in a session": (
                "session",
                lambda run: self.calls_once(run, "session", "echo", 32),
            ),
            "sessions opened and closed": ("sessions", self.sessions_once),
            "tasks begun": ("tasks", lambda run: self.calls_once(run, "modern", "task", 32)),
            "10,000 events said again": ("replay", self.load.replay),
            "memory of 10,000 idle sessions": ("memory", self.idle_sessions),
        }
        return [
            Group(
                f"{title}, by store",
                [self.kept_lane(what, server, s, take) for server in servers for s in STORES],
            )
            for title, (what, take) in kinds.items()
        ]

    def kept_lane(self, what, server, store, measure):
        def take(fleet):
            env = self.stores.env(store)
            if what != "memory":
                return without_store(measure(fleet.get(server, "session", env)), store)
            with Running(server, "session", fleet.pins.server, env) as running:
                return without_store(measure(running), store)

        more = {"replay": {"passes": 3, "seconds": 15}, "memory": {"passes": 1, "seconds": 6}}
        if what == "memory":
            more["memory"] |= {"key": "kb_per_session", "unit": "KB a session"}
        cell = f"durability {what} {store}"
        return self.lane(cell, server, take, label=store, **more.get(what, {}))

    def sessions_once(self, running):
        warm = self.settings.warm(running.server)
        return self.load.sessions(running, 32, self.settings.seconds, warm)

    def idle_sessions(self, running):
        self.load.calls(running, "session", "echo", 1, 0.3, 0)
        return {"errors": 0, **self.load.open(running, "session", 10_000)}

    def condition(self, what, size):
        if what == "tools":
            return Condition("modern", {"TOOLS": str(size)}, None)

        # The caller's own sessions are open too.
        def open_sessions(running):
            report = self.load.open(running, "session", size)
            if report.get("first_error"):
                raise RuntimeError(report["first_error"])

        return Condition("session", {}, open_sessions)


@dataclasses.dataclass(frozen=True)
class Condition:
    """What a server is put under before it is measured."""

    era: str
    env: dict
    # Called with the running server.
    prepare: object


def counted(instructions_each):
    return {"errors": 0, "instructions": instructions_each}


def without_store(report, store):
    """What Redis takes of the machine is part of what is measured."""
    if store == "redis":
        report["store_cores"] = report.pop("other_cores", 0)
    return report


def survived(report):
    """Whether everything that was opened is there and alive."""
    if report["errors"] or report["first_error"]:
        return False
    return all(
        report[f"{what}_alive"] == report[f"{what}_probed"] and report[what] == report["asked_for"]
        for what in ("sessions", "streams")
    )
