"""What is measured of a folder of scripts, as lanes that take samples."""

import dataclasses
import resource
import shutil
import statistics
import time

from . import contenders, folders, machine
from .sampling import Group, Lane
from .talk import Talk, Wrong

TOGETHER = 8
# For the starts of one sample, unless the first takes longer.
START_SECONDS = 5
TITLES = {
    "start": "Start: to the first right list of {tools} tools",
    "call sh": "One call after another: /bin/sh, echo hello",
    "call python": "One call after another: Python, print hello",
    "together sh": f"{TOGETHER} calls at a time: /bin/sh, echo hello",
    "together python": f"{TOGETHER} calls at a time: Python, print hello",
}


@dataclasses.dataclass(frozen=True)
class Settings:
    quick: bool
    # Clean samples of each, and of those that are slow.
    passes: int
    slow_passes: int
    # Scripts in the folder that is started; the most starts in a sample.
    tools: int
    starts: int
    # Calls in a sample of each kind of script, and of those that are slow.
    calls: dict
    slow_calls: int
    # Seconds to wait for a quiet moment.
    patience: float


FULL = Settings(False, 5, 3, 200, 20, {"sh": 400, "python": 100}, 20, 20)
QUICK = Settings(True, 2, 1, 20, 3, {"sh": 60, "python": 20}, 8, 1)


class Bench:
    """Folders for all contenders, and what is done with them."""

    def __init__(self, those, settings, home):
        self.those, self.settings, self.home = those, settings, home
        self.temporary = home / "tmp"
        self.temporary.mkdir()
        self.spawn = contenders.Spawn(home)
        self.greetings, self.called = folders.greetings(settings.tools), folders.called()
        self.scripts = folders.with_comments(home / "limit", "limit", self.called)
        for contender in those:
            contender.make(self.folder(contender, "start"), contender.said, self.greetings)
            contender.make(self.folder(contender, "call"), contender.said, self.called)

    def folder(self, contender, row):
        return self.home / contender.name / row

    def talk(self, contender, row):
        command, env = contender.start(self.folder(contender, row))
        return Talk(command, contenders.environment(env, self.temporary))

    def check(self, contender):
        """Asks who it is, with the few tools that are called."""
        with self.talk(contender, "call") as talk:
            self.require(contender, talk, talk.open(), talk.tools(), self.called)

    def require(self, contender, talk, info, tools, scripts):
        """It is who it should be, and offers what it should."""
        running = contenders.program_of(talk.process.pid)
        if info.get("name") != contender.said or running != contender.program:
            raise Wrong(f"{contender.name} is another: {running} calls itself {info.get('name')}")
        if sorted(tool["name"] for tool in tools) != sorted(script.name for script in scripts):
            raise Wrong(f"{contender.name} lists {len(tools)} tools, not these {len(scripts)}")
        for tool in tools:
            properties = tool.get("inputSchema", {}).get("properties", {})
            if tool["name"] not in tool.get("description", "") or "name" not in properties:
                raise Wrong(f"{contender.name} does not describe {tool['name']}")

    def groups(self):
        made = [Group(TITLES["start"].format(tools=self.settings.tools), self.start_lanes())]
        for how, together in (("call", 1), ("together", TOGETHER)):
            for kind in folders.CALLED:
                cell = f"{how} {kind}"
                made.append(Group(TITLES[cell], list(self.call_lanes(cell, kind, together))))
        return made

    def start_lanes(self):
        lanes = []
        for contender in self.those:
            seconds = 90 if contender.forgets else 6
            take = self.start_sample(contender)
            lanes.append(self.lane("start", contender, take, "milliseconds", "ms", seconds))
        return lanes

    def call_lanes(self, cell, kind, together):
        key, unit = ("p50_us", "µs") if together == 1 else ("per_second", "/s")
        yield self.lane(cell, self.spawn, self.spawn_sample(kind, together), key, unit, 2)
        for contender in self.those:
            if contender.is_called:
                take = self.call_sample(contender, kind, together)
                yield self.lane(cell, contender, take, key, unit, 40 if contender.is_slow else 3)

    def lane(self, cell, contender, take, key, unit, seconds):
        settings = self.settings
        passes = settings.slow_passes if contender.is_slow else settings.passes
        spare = 0 if settings.quick else 1 if contender.is_slow else 2 * passes
        shorter = 0.2 if settings.quick else 1
        return Lane(cell, contender, take, passes, seconds * shorter, key, unit, spare=spare)

    def start_sample(self, contender):
        """As many starts as there is time for; their median."""

        def take(_fleet):
            with Meter() as meter:
                found, deadline = [self.start_once(contender)], meter.began + START_SECONDS
                while len(found) < self.settings.starts and time.monotonic() < deadline:
                    found.append(self.start_once(contender))
            return {"milliseconds": statistics.median(found), **meter.report()}

        return take

    def start_once(self, contender):
        folder = self.folder(contender, "start")
        if contender.forgets:
            shutil.rmtree(folder / ".registry", ignore_errors=True)
        elif contender.is_slow and not (folder / ".registry").exists():
            with self.talk(contender, "start") as talk:
                talk.open()
                talk.tools()
        began = time.perf_counter()
        with self.talk(contender, "start") as talk:
            info, tools = talk.open(), talk.tools()
            milliseconds = (time.perf_counter() - began) * 1000
            self.require(contender, talk, info, tools, self.greetings)
        return milliseconds

    def call_sample(self, contender, kind, together):
        usual = self.settings.calls[kind]
        warm, count = 3 * together, usual
        if contender.is_slow:
            warm, count = 1, min(self.settings.slow_calls, usual)

        def take(_fleet):
            with Meter() as meter, self.talk(contender, "call") as talk:
                self.require(contender, talk, talk.open(), talk.tools(), self.called)
                talk.call(f"hello_{kind}", warm, together)
                found = talk.call(f"hello_{kind}", count, together)
            return {**calls_report(*found), **meter.report()}

        return take

    def spawn_sample(self, kind, together):
        script = self.scripts / f"hello_{kind}.{folders.CALLED[kind][0]}"
        env = contenders.environment({}, self.temporary)

        def take(_fleet):
            with Meter() as meter:
                self.spawn.run(script, 3 * together, together, env)
                found = self.spawn.run(script, self.settings.calls[kind], together, env)
            return {**calls_report(*found), **meter.report()}

        return take


def calls_report(seconds, micros):
    micros = sorted(micros)
    return {
        "per_second": len(micros) / seconds,
        "p50_us": statistics.median(micros),
        "p99_us": micros[min(len(micros) - 1, int(len(micros) * 0.99))],
        "calls": len(micros),
    }


class Meter:
    """What the rest of the machine did meanwhile, in cores."""

    def __enter__(self):
        self.machine, self.own, self.began = machine.busy_seconds(), own_seconds(), time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.began
        self.other = machine.busy_seconds() - self.machine - (own_seconds() - self.own)

    def report(self):
        return {"other_cores": round(self.other / self.seconds, 3), "errors": 0}


def own_seconds():
    """CPU time of this program and of all that it started and that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
