"""What was measured: samples by cell and server, kept in a file, read as medians."""

import json
import statistics

from . import places

# More other work on the machine than this, in cores, and a sample does not count.
NOISE = 0.25


class Results:
    def __init__(self, machine=None, cells=None):
        self.machine = machine or {}
        # By cell and server: when and how it was measured, the samples, and those that failed.
        self.cells = cells or {}

    def put(self, cell, server, measured, samples):
        good = [sample for sample in samples if not sample.get("errors")]
        failures = [sample["first_error"] for sample in samples if sample.get("errors")]
        self.cells.setdefault(cell, {})[server] = {
            "measured": measured,
            "samples": good,
            "failed": len(failures),
            "failure": without_paths(failures[0]) if failures else "",
        }

    def names(self, cell):
        """The servers of a cell that gave any sample, in the order they were measured."""
        return [name for name, entry in self.cells.get(cell, {}).items() if entry["samples"]]

    def failures(self):
        """Cell, server, how many samples failed, how many there are, and why the first failed."""
        for cell, servers in self.cells.items():
            for name, entry in servers.items():
                if entry["failed"]:
                    taken = entry["failed"] + len(entry["samples"])
                    yield cell, name, entry["failed"], taken, entry["failure"]

    def measured(self):
        """When and how: more than one, if parts were renewed since."""
        entries = [entry for servers in self.cells.values() for entry in servers.values()]
        return sorted({entry["measured"] for entry in entries})

    def samples(self, cell, server):
        """The clean samples; the others only if there is no clean one."""
        samples = self.cells.get(cell, {}).get(server, {}).get("samples", [])
        return [sample for sample in samples if is_clean(sample)] or samples

    def is_noisy(self, cell, server):
        samples = self.samples(cell, server)
        return bool(samples) and not any(is_clean(sample) for sample in samples)

    def median(self, cell, server, key):
        values = [sample[key] for sample in self.samples(cell, server) if key in sample]
        return statistics.median(values) if values else None

    def renew(self, newer):
        """Takes over what is newer. Another machine's figures are not mixed in."""
        if comparable(self.machine) != comparable(newer.machine):
            self.cells = {}
        self.machine = newer.machine
        for cell, servers in newer.cells.items():
            self.cells.setdefault(cell, {}).update(servers)


def is_clean(sample):
    return not sample.get("errors") and sample.get("other_cores", 0) <= NOISE


def without_paths(text):
    """Where things are on this machine is nobody's business."""
    for path in (places.release(), places.ROOT):
        text = text.replace(str(path), "…")
    return text


def comparable(machine):
    return {key: value for key, value in machine.items() if key in ("cores", "cpu", "pinning")}


def read(path):
    if not path.exists():
        return Results()
    kept = json.loads(path.read_text())
    return Results(kept["machine"], kept["cells"])


def write(results, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {"machine": results.machine, "cells": results.cells}
    path.write_text(json.dumps(kept, indent=1) + "\n")
