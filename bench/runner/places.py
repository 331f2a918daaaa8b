"""Where things are."""

import os
import pathlib

BENCH = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
TOOLS = ROOT / "target" / "test-tools"
RESULTS = BENCH / "results" / "latest.json"
QUICK_RESULTS = BENCH / "results" / "quick.json"
SCRIPTS_RESULTS = BENCH / "results" / "scripts.json"
PAGE = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "performance"


def target():
    """Where cargo puts what it builds here; servers/build chooses the same."""
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or BENCH / "target").resolve()


def release():
    return target() / "release"


def debug():
    return target() / "debug"


def load_program():
    return release() / "load"
