"""How samples are taken: servers in turn, pass after pass, until each has enough clean ones."""

import collections.abc
import dataclasses
import statistics

from . import machine, units
from .results import is_clean
from .servers import Fleet, Server

# Failures in a row after which a lane is given up.
HOPELESS = 2


@dataclasses.dataclass
class Lane:
    """One server in one cell."""

    cell: str
    server: Server
    # Takes one sample, with servers of a fleet.
    take: collections.abc.Callable
    # Clean samples that are wanted.
    passes: int
    # Seconds one sample is expected to take.
    seconds: float
    # What the progress line and the summary show: a key of the sample, and its unit.
    key: str = "per_second"
    unit: str = "/s"
    # What tells two lanes of one server apart.
    label: str = ""
    # Samples that may be taken again, when the machine was busy.
    spare: int = 0
    samples: list = dataclasses.field(default_factory=list)

    @property
    def name(self):
        return f"{self.server.name} {self.label}".strip()

    @property
    def clean(self):
        return [sample for sample in self.samples if is_clean(sample)]

    @property
    def attempts(self):
        return self.passes + self.spare

    def wants_more(self):
        if len(self.clean) >= self.passes or len(self.samples) >= self.attempts:
            return False
        last = self.samples[-HOPELESS:]
        return len(last) < HOPELESS or not all(sample.get("errors") for sample in last)

    def summary(self):
        good = self.clean or [sample for sample in self.samples if not sample.get("errors")]
        values = [sample[self.key] for sample in good if self.key in sample]
        if not values:
            return "failed: " + (self.samples[-1].get("first_error", "") if self.samples else "")
        noisy = "" if self.clean else "  (noisy)"
        return f"{units.figure(statistics.median(values))} {self.unit}{noisy}"


@dataclasses.dataclass
class Group:
    """Lanes that are compared with each other, so they take turns."""

    title: str
    lanes: list

    @property
    def seconds(self):
        return sum(lane.passes * lane.seconds for lane in self.lanes)


def run(group, patience, pins, screen, clock):
    """Samples every lane of a group, each time after some patience for a quiet moment."""
    screen.title(group.title)
    most = max(lane.attempts for lane in group.lanes)
    with Fleet(pins) as fleet:
        for number in range(most):
            for lane in [lane for lane in group.lanes if lane.wants_more()]:
                screen.passing(progress(group, lane, number, clock))
                machine.wait_until_quiet(patience)
                lane.samples.append(sample(lane, fleet))
                if number < lane.passes:
                    clock.finish(lane.seconds)
    width = max(len(lane.name) for lane in group.lanes)
    for lane in group.lanes:
        screen.line(f"  {lane.name:<{width}}  {lane.summary()}")


def progress(group, lane, number, clock):
    again = " (again: the machine was busy)" if number >= lane.passes else ""
    turn = f"pass {min(number + 1, lane.passes)} of {lane.passes}{again}"
    return f"  {turn}: {lane.name} · about {clock.left()} left of everything"


def sample(lane, fleet):
    try:
        return lane.take(fleet)
    except (RuntimeError, OSError) as error:
        return {"errors": 1, "first_error": str(error)}
