"""What came of it: a table for people, and everything that is against the rule."""

import os
import sys
from itertools import groupby

from processes import KINDS

# How many of a kind a client must do in a minute, or the test says little.
AT_LEAST = {"calls": 60, "progress": 12, "sampling": 15, "elicitation": 15, "subscriptions": 10, "tasks": 4}
# An SDK may notice this much later that its connection was cut.
NOTICED_SECONDS = 1
# The proxy cuts a connection before it writes down when: the client may hear of it first.
WRITTEN_SECONDS = 0.05
# Of troubles that are alike, so many are shown.
SHOWN = 3


def show_table(stage):
    columns = ["client", *KINDS, "failed in flight", "lost"]
    rows = [dict(zip(columns, columns))]
    for client in stage.clients:
        counts = {kind: client.counts[kind] if does(client, kind) else "-" for kind in KINDS}
        rows.append({"client": client.name, **counts, "failed in flight": len(client.failed), "lost": len(client.lost)})
    print()
    for row in rows:
        print(f"  {row['client']:<10}" + "".join(f"{row[column]:>{len(column) + 2}}" for column in columns[1:]))
    print(f"  {len(stage.kills)} kills")
    show_changes(stage)


def show_changes(stage):
    """Which clients are not as they were published, in what, and why."""
    as_published = [client.name for client in stage.clients if not client.changed]
    print(f"  as published: {', '.join(as_published) or 'none'}")
    for client in stage.clients:
        for change in client.changed:
            print(f"  changed, {client.name}: {change}")
    print(end="", flush=True)


def does(client, kind):
    """Tasks since 2026-07-28 are an extension, and the official clients do not have it."""
    return kind != "tasks" or client.sessions != []


def troubles(stage):
    """Everything that is against the rule: what it is, and more about it."""
    found = []
    enough = int(stage.seconds / stage.plan.every / 2)
    if len(stage.kills) < enough:
        found.append(("too few kills", f"{len(stage.kills)}, and {enough} are the least"))
    for client in stage.clients:
        found += [(f"{client.name}: {what}", more) for what, more in of_client(stage, client)]
    for what, alike in groupby(found, key=lambda trouble: trouble[0]):
        alike = [more for _, more in alike]
        print(f"\n  {red(what)}" + (f", {len(alike)} times" if len(alike) > 1 else ""))
        for more in alike[:SHOWN]:
            print(f"    {more}")
        if len(alike) > SHOWN:
            print(f"    and {len(alike) - SHOWN} more")
    return found


def of_client(stage, client):
    cuts = {"calls": stage.proxy.cuts[client.name], "listens": stage.proxy.cuts[f"{client.name}/listens"]}
    for kind in KINDS:
        for lost in client.lost:
            if lost["kind"] == kind:
                yield f"lost, {kind}", shown(lost)
    for failed in client.failed:
        # A task dies with its replica, whoever is connected to that.
        times = {"subscriptions": cuts["listens"], "tasks": stage.kills}.get(failed["kind"], cuts["calls"])
        if not any(failed["began"] - NOTICED_SECONDS <= at <= failed["ended"] + WRITTEN_SECONDS for at in times):
            yield "failed, and nothing of it was on a killed server", shown(failed)
    for kind in KINDS:
        enough = int(AT_LEAST[kind] * stage.seconds / 60)
        if does(client, kind) and client.counts[kind] < enough:
            yield f"too few {kind}", f"{client.counts[kind]}, and {enough} are the least"
    # What is cut may take along whatever else its client has under way.
    most = sum(len(times) for times in cuts.values()) * len(KINDS)
    if len(client.failed) > most:
        yield "too many failures", f"{len(client.failed)}, and what was cut short explains {most}"


def shown(event):
    return f"{event['began']:.3f} to {event['ended']:.3f}: {event['detail']}"


def say_at_last(wrong, logs):
    """The last line, and the status to end with."""
    count = sum(len(found) for found in wrong.values())
    if not count:
        print(f"\nnothing was lost on {' and '.join(wrong)}")
        return 0
    print(f"\n{count} times the rule was broken; what servers, proxy and clients said is in {logs}")
    return 1


def red(words):
    return f"\x1b[31m{words}\x1b[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else words
