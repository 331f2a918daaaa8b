"""Compares the table of methods and the messages of the server with the official types."""

import argparse
import sys
from pathlib import Path

import table
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS
from shapes import KINDS, UNTYPED, Judge
from talk import Talk
from transcript import perform

# What a server may send and the fixture never does, and why.
NEVER_SENT = {
    ("request", "ping"): "a pipe that is open has a client",
    ("notification", "notifications/cancelled"): "questions are left alone, a subscription ends with its result",
    ("notification", "notifications/elicitation/complete"): "no tool of the fixture sends the user to a page",
    ("notification", "notifications/resources/list_changed"): "no tool of the fixture changes the resources",
}


def converse(server, revision, logs):
    """The judge of one whole conversation."""
    judge = Judge(revision)
    with open(logs / f"{revision}.log", "w") as log:
        talk = Talk([server, "--stdio", "--page-size", "20"], revision, judge, log)
        try:
            perform(talk)
            talk.end()
            judge.failures += unexpected_silence(judge)
        # Whatever it is: a malformed message can trip any step after it.
        except Exception as error:
            judge.failures.append(f"the transcript stopped: {error!r}")
        finally:
            talk.stop()
    return judge


def unexpected_silence(judge):
    for kind, method in sorted(judge.possible - judge.seen - NEVER_SENT.keys()):
        yield f"no {kind} of {method} was sent: the transcript should bring one about"
    for kind, method in sorted(judge.seen & NEVER_SENT.keys()):
        yield f"a {kind} of {method} was sent: take it from NEVER_SENT"


def report(judges):
    print(f"{'revision':<12}" + "".join(f"{kind + 's':>15}" for kind in KINDS) + f"{'unchecked':>12}{'failures':>10}")
    for judge in judges:
        counts = "".join(f"{judge.checked[kind]:>15}" for kind in KINDS)
        print(f"{judge.revision:<12}{counts}{judge.unchecked.total():>12}{len(judge.failures):>10}")
    for judge in judges:
        for name, count in judge.unchecked.items():
            print(f"\n{judge.revision}: {count} unchecked, {name}: {UNTYPED.get(name, 'unexpected')}")
        for failure in judge.failures:
            print(f"\n{judge.revision}: {failure}")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--server", required=True)
    options.add_argument("--methods", required=True, type=Path)
    options.add_argument("--logs", required=True, type=Path, help="what the server says on standard error")
    options.add_argument("revisions", nargs="*", metavar="REVISION", help=", ".join(KNOWN_PROTOCOL_VERSIONS))
    options = options.parse_args()

    wrong_rows = list(table.differences(options.methods.read_text()))
    print(f"table of methods, differences: {len(wrong_rows)}")
    for row in wrong_rows:
        print(f"    {row}")
    print()
    options.logs.mkdir(parents=True, exist_ok=True)
    revisions = options.revisions or KNOWN_PROTOCOL_VERSIONS
    judges = [converse(options.server, revision, options.logs) for revision in revisions]
    report(judges)
    sys.exit(1 if wrong_rows or any(judge.failures for judge in judges) else 0)


if __name__ == "__main__":
    main()
