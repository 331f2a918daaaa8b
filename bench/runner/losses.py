"""Where we lose: targets missed, and rows in which a peer is ahead."""

from . import targets
from .tables import TABLES

# Columns in which more is better; in all others, less is.
MORE_IS_BETTER = ("per_second",)
# Columns that say how much was done, not how well.
NEUTRAL = ("sessions", "alive")


def lines(results):
    """A sentence for each loss."""
    return missed(results) + behind(results)


def missed(results):
    found = [verdict for verdict in targets.verdicts(results) if verdict.state == "not met"]
    return [f"Target missed: {verdict.title}. {said(verdict)}" for verdict in found]


def said(verdict):
    beside = f", {verdict.theirs} beside it" if verdict.theirs != "–" else ""
    ratio = f", ratio {verdict.ratio}" if verdict.ratio else ""
    return f"{verdict.ours}{beside}{ratio}; wanted {verdict.wanted}."


def behind(results):
    """Every row in which a peer beats the build of ours it is compared with, and in what."""
    found = []
    for title, cell, columns, _ in TABLES:
        for peer in targets.PEERS:
            ahead = figures_ahead(results, cell, columns, peer)
            if ahead:
                busy = any(results.is_noisy(cell, server) for server in (peer, counterpart(peer)))
                doubt = " The machine was busy." if busy else ""
                beaten = f"{peer} is ahead of {counterpart(peer)}"
                found.append(f"{title}: {beaten} in {'; '.join(ahead)}.{doubt}")
    return found


def figures_ahead(results, cell, columns, peer):
    """What a peer is better in, with its figure and ours."""
    if has_lost_sessions(results, cell, peer):
        return []
    ahead = []
    for column in columns:
        theirs, own = (results.median(cell, name, column.key) for name in (peer, counterpart(peer)))
        if column.key in NEUTRAL or theirs is None or own is None:
            continue
        if own < theirs if column.key in MORE_IS_BETTER else own > theirs:
            ahead.append(f"{column.title}, {column.show(theirs)} beside our {column.show(own)}")
    return ahead


def counterpart(peer):
    """The build with the same allocator: our best beside theirs, our default beside the rest."""
    return "zcp-best" if peer.endswith("-best") else "zcp-default"


def has_lost_sessions(results, cell, server):
    """A server that lost what it was given to hold has no figure for holding it."""
    return any(
        sample.get("sessions_alive", 0) < sample.get("sessions_probed", 0)
        for sample in results.samples(cell, server)
    )
