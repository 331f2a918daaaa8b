"""What came of it: a table for people, and everything that is against the rule."""

KINDS = ["calls", "progress", "sampling", "elicitation", "subscriptions", "tasks"]
# How many of a kind there must be in a minute, or the test says little.
AT_LEAST = {"calls": 60, "progress": 12, "sampling": 15, "elicitation": 15, "subscriptions": 6, "tasks": 4}
# A client may notice a cut connection this much later.
NOTICED = 1.0
SHOWN = 12


def show(stage):
    kills = len(stage.kills) // 2
    columns = ["client", *KINDS, "failed in flight", "lost"]
    print("  " + "".join(cell(name, name) for name in columns))
    for client in stage.clients:
        counts = {kind: "-" if has_no(client, kind) else client.counts[kind] for kind in KINDS}
        row = {"client": client.name, **counts, "failed in flight": len(client.failed), "lost": len(client.lost)}
        print("  " + "".join(cell(name, row[name]) for name in columns))
    print(f"  {kills} kills", flush=True)


def cell(column, value):
    width = 12 if column == "client" else len(column)
    return f"{value:<{width}}" if column == "client" else f"  {value:>{width}}"


def has_no(client, kind):
    """Tasks of the stateless era are an extension that the official clients do not have."""
    return kind == "tasks" and not client.sessions


def verdict(stage):
    """Prints what is against the rule, and gives it."""
    troubles = []
    kills = len(stage.kills) // 2
    expected = int(stage.seconds / stage.plan.every / 2)
    if kills < expected:
        troubles.append(f"only {kills} kills, {expected} are expected")
    for client in stage.clients:
        cuts = stage.proxy.cuts[client.name]
        troubles += [f"{client.name}: {trouble}" for trouble in of_client(stage, client, cuts)]
    for trouble in troubles[:SHOWN]:
        print(f"    {trouble}")
    if len(troubles) > SHOWN:
        print(f"    and {len(troubles) - SHOWN} more")
    return troubles


def of_client(stage, client, cuts):
    for lost in client.lost:
        yield f"lost, {lost['kind']}, {lost['ended'] - lost['began']:.1f} s after {lost['began']:.3f}: {lost['detail']}"
    for failed in client.failed:
        if not explained(failed, stage.kills if failed["kind"] == "tasks" else cuts):
            yield f"failed while nothing was killed, {failed['kind']}, at {failed['began']:.3f}: {failed['detail']}"
    for kind in KINDS:
        at_least = int(AT_LEAST[kind] * stage.seconds / 60)
        if not has_no(client, kind) and client.counts[kind] < at_least:
            yield f"only {client.counts[kind]} of {kind}, {at_least} are expected"
    workers = len(KINDS) - has_no(client, "tasks")
    if len(client.failed) > len(cuts) * workers:
        yield f"{len(client.failed)} failures, but only {len(cuts)} of its exchanges were cut short"


def explained(failed, times):
    return any(failed["began"] - NOTICED <= at <= failed["ended"] for at in times)
