"""The tables *Controllers* and *Clients*, which page, terminal and report share: columns, rows and texts. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from watchslo.api.feed import ClientLine
from watchslo.api.status import ClientStatus, InformerStatus, IntervalStatus, ReactionStatus
from watchslo.snapshot import StoreVerdict
from watchslo.timeline.condition import P50, P99
from watchslo.timeline.figure import bounds_text, estimate_text, proven_text
from watchslo.timeline.format import ABSENT, duration, duration_text
from watchslo.timeline.verdict import Level

MOST_STALE = 10  # rows of one client


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its heading, `title` explains it where the reader points at it, and `is_figure` aligns it right."""

    heading: str
    title: str = ""
    is_figure: bool = False


# --- controllers ------------------------------------------------------------------------------------------------------

CONTROLLERS = (
    TableColumn("Resource"),
    TableColumn("Step"),
    TableColumn("Events", is_figure=True),
    TableColumn("P50", is_figure=True),
    TableColumn("P99", is_figure=True),
    TableColumn("P99 bounds", "Proven, without statistics", is_figure=True),
    TableColumn("Pending", "Objects that wait for this step; a dash if the watch may withhold events", is_figure=True),
    TableColumn("Oldest", "For how long the oldest of them has waited at least", is_figure=True),
    TableColumn(
        "Condition",
        "Slow: P99 is proven to be above the threshold of the step, or the oldest waits for longer",
    ),
)
"""The columns of `reaction_cells`."""


def shown_reactions(reactions: Iterable[ReactionStatus]) -> tuple[ReactionStatus, ...]:
    """Return the steps that have a row: those with events or pending objects."""
    return tuple(reaction for reaction in reactions if reaction.events or reaction.pending)


def reaction_cells(reaction: ReactionStatus) -> tuple[str, ...]:
    """Return the texts of one step of one resource."""
    known = {quantile.q: quantile for quantile in reaction.quantiles}
    return (
        reaction.name,
        reaction.step,
        f"{reaction.events:,}",
        estimate_text(known.get(P50)),
        estimate_text(known.get(P99)),
        bounds_text(known.get(P99)),
        ABSENT if reaction.pending is None else f"{reaction.pending:,}",
        duration_text(reaction.oldest_pending if reaction.pending else None),
        _judgement(reaction),
    )


def _judgement(reaction: ReactionStatus) -> str:
    """Return whether a step is within its threshold, which is named if not."""
    if reaction.threshold is None:
        return ABSENT
    return f"slow (> {duration(reaction.threshold)})" if reaction.slow else "within"


# --- clients ----------------------------------------------------------------------------------------------------------

CLIENTS = (
    TableColumn("Client"),
    TableColumn("Resource"),
    TableColumn(
        "Staleness bounds", "For how long its cache has lacked an event, proven; the worst of several", is_figure=True
    ),
    TableColumn(
        "Queued",
        "Items that have arrived and wait for the cache, as the client says itself; the most of several",
        is_figure=True,
    ),
    TableColumn("Condition", "Stale: our own watch had received the missing event for longer than its threshold"),
)
"""The columns of `client_lines`."""


def client_lines(clients: Iterable[ClientStatus]) -> Iterator[ClientLine]:
    """Yield the rows of each client: its stale resources, the worst first, all others in one row, and its obstacle."""
    for client in clients:
        stale = sorted((each for each in client.informers if each.verdict == StoreVerdict.STALE), key=_worst_first)
        for informer in stale[:MOST_STALE]:
            cells = informer.name, _staleness((informer,)), _queued((informer,)), informer.verdict
            yield _client_line(client, informer.name, Level.BAD, *cells)
        others = [each for each in client.informers if each not in stale[:MOST_STALE]]
        if others or client.unknown:
            yield _line_of_others(client, others)
        if client.obstacle or not (client.informers or client.unknown):
            unread = client.obstacle or "not judged yet"
            yield _client_line(client, "", Level.UNKNOWN, ABSENT, ABSENT, ABSENT, unread)


def _client_line(client: ClientStatus, name: str, level: Level, *cells: str) -> ClientLine:
    return ClientLine(key=f"{client.client} {name}", level=level, cells=(client.client, *cells))


def _worst_first(informer: InformerStatus) -> tuple[float, float, str]:
    """Return a key that sorts stale resources by their proven staleness."""
    bounds = informer.staleness or IntervalStatus(lower=0.0, upper=0.0)
    return -bounds.lower, float("-inf") if bounds.upper is None else -bounds.upper, informer.name


def _line_of_others(client: ClientStatus, others: Sequence[InformerStatus]) -> ClientLine:
    """Return the row of the resources that have no row of their own: the worst figures of those that are judged."""
    verdicts = [each.verdict for each in others]
    stale, current = verdicts.count(StoreVerdict.STALE), verdicts.count(StoreVerdict.CURRENT)
    unknown = sum(client.unknown.values())
    counts = [f"{count:,} {verdict}" for count, verdict in ((stale, "stale"), (current, "current")) if count]
    counts += [f"{unknown:,} unknown ({', '.join(client.unknown)})"] if unknown else []
    level = Level.BAD if stale else Level.GOOD if current else Level.UNKNOWN
    judged = [each for each in others if each.verdict != StoreVerdict.UNKNOWN]
    name = "all" if len(others) == len(client.informers) else "others"
    return _client_line(client, name, level, name, _staleness(judged), _queued(others), ", ".join(counts) or ABSENT)


def _staleness(informers: Iterable[InformerStatus]) -> str:
    """Return the bounds of the highest staleness; an upper bound of None is infinite."""
    known = [informer.staleness for informer in informers if informer.staleness]
    if not known:
        return ABSENT
    uppers = [bounds.upper for bounds in known if bounds.upper is not None]
    upper = max(uppers) if len(uppers) == len(known) else None
    if upper == 0.0:
        return f"proven {duration(upper)}"
    return proven_text(IntervalStatus(lower=max(bounds.lower for bounds in known), upper=upper))


def _queued(informers: Iterable[InformerStatus]) -> str:
    known = [each.queued for each in informers if each.queued is not None]
    return f"{max(known):,}" if known else ABSENT
