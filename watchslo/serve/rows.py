"""The rows of the page's tables, one for each watch and each apiserver: their values, and the texts of their cells.

The cells are written here and in `serve/tables.py` only: the HTML of the page has them, and the feed sends them to its
scripts. The column of each cell is named in `templates/page.html`, or in `serve/tables.py`.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from msgspec.structs import replace

from watchslo.api.feed import ApiserverLine, ClientLine, ReactionLine, WatchLine
from watchslo.api.part import part_of
from watchslo.api.status import ClientStatus, QuantileStatus, ReactionStatus
from watchslo.model import resource_key, shared_port
from watchslo.serve.tables import client_lines, reaction_cells, shown_reactions
from watchslo.snapshot import (
    ApiserverReading,
    ApiserverRole,
    DomainReading,
    QuantileReading,
    Snapshot,
    StorageKind,
    TickerReading,
    WatchReading,
    WindowReading,
)
from watchslo.timeline import condition
from watchslo.timeline.condition import BAD, Condition, WatchCondition
from watchslo.timeline.explanation import labelled
from watchslo.timeline.figure import bounds_text, estimate_text, proven_text
from watchslo.timeline.format import ABSENT, duration, duration_text
from watchslo.timeline.timeline import Account

WORST_FIRST = tuple(Condition)
STORAGE = {
    "pending": "storage not proven yet",
    "foreign": "another storage",
    "unparsable": "revisions are not numbers",
}
"""Why a clock does not date the revisions of a watch, by its membership."""
UNWATCHED: Mapping[str, str] = {ApiserverRole.SERVICE: "not watched", ApiserverRole.WITNESS: "witness"}
"""What an apiserver without watches is asked for, by its role."""


# --- texts ------------------------------------------------------------------------------------------------------------


def shown_condition(line: WatchLine) -> str:
    """Return the condition, and since when or for how long it is bad."""
    if line.stalled_for is not None:
        return f"{line.condition} for {duration(line.stalled_for)}"
    return f"{line.condition} since {line.since:%H:%M}" if line.bad else _marked_condition(line)


def _marked_condition(line: WatchLine) -> str:
    """Return the condition, marked if it is not proven."""
    return labelled(line.condition, line.judged.upper if line.judged else None, line.threshold)


def _caption(line: WatchLine) -> str:
    figures = (estimate_text(line.judged), proven_text(line.judged)) if line.judged else ()
    return " · ".join((_marked_condition(line), *figures))


def _watch_cells(line: WatchLine, port: str) -> tuple[str, ...]:
    return (
        line.watch,
        line.apiserver.removesuffix(port),
        shown_condition(line),
        estimate_text(line.p50),
        estimate_text(line.judged),
        bounds_text(line.judged),
        estimate_text(line.p999),
        f"{line.events:,}",
        f"{line.last_event:%H:%M:%S}" if line.last_event else ABSENT,
        f"{line.closes:,}",
        f"{line.relists:,}",
        f"{line.expired:,}",
        duration_text(line.bookmark_age),
        line.state,
        duration(line.threshold),
        ABSENT if line.behind is None else f"{line.behind:,}",
        f"{line.failed_at:%H:%M} {line.failure}" if line.failed_at else ABSENT,
    )


def _apiserver_cells(line: ApiserverLine, port: str) -> tuple[str, ...]:
    behind = f" ({line.peers} behind this address)" if (line.peers or 1) > 1 else ""
    short = ", too short" if line.fits is False else ""
    return (
        line.name.removesuffix(port),
        f"{line.version or ABSENT}{behind}",
        UNWATCHED.get(line.role, f"{line.open} of {line.watches}"),
        line.failure or duration_text(line.tick),
        estimate_text(line.p50),
        estimate_text(line.p99),
        estimate_text(line.p999),
        estimate_text(line.own_p99),
        duration_text(line.behind_peers),
        " / ".join(map(duration, line.behind_fastest)) if line.behind_fastest else ABSENT,
        ABSENT if line.remembers is None else f"{duration(line.remembers)} ({line.remembers_of}{short})",
        ", ".join(line.causes) or ABSENT,
    )


# --- values -----------------------------------------------------------------------------------------------------------


def key_of(watch: str, apiserver: str) -> str:
    """Return the key of a watch in the feed."""
    return f"{watch}@{apiserver}"


def resource_name(watch: WatchReading) -> str:
    """Return the resource as kubectl takes it: `pods`, `deployments.apps`."""
    return resource_key(watch.resource, watch.group)


def time_of(wall: float) -> datetime:
    """Return a time in Unix seconds as UTC."""
    return datetime.fromtimestamp(wall, UTC)


def watches(account: Account) -> dict[str, WatchLine]:
    """Return the rows of all watches by their keys."""
    domains = {domain.name: domain for domain in account.snapshot.domains}
    port = _port(account.snapshot)
    made = (watch_line(line, domains.get(line.watch.domain), port) for line in account.lines)
    return {line.key: line for line in made}


def _port(snapshot: Snapshot) -> str:
    """Return the port that the cells leave out, because all apiservers share it."""
    return shared_port(apiserver.name for apiserver in snapshot.apiservers)


def watch_line(line: WatchCondition, domain: DomainReading | None, port: str = "") -> WatchLine:
    """Return the row of one watch, whose clock is None if it is gone; its cells leave out the port."""
    watch, received = line.watch, line.watch.received
    newest = domain.revision if domain and domain.kind is StorageKind.SEQUENCE else None
    known = newest is not None and received.revision is not None and watch.membership == "member"
    state, failure = watch.session.state, watch.session.last_failure
    made = WatchLine(
        key=key_of(watch.watch, watch.apiserver),
        watch=watch.watch,
        resource=resource_name(watch),
        apiserver=watch.apiserver,
        name=line.name,
        condition=line.condition,
        since=time_of(line.since_wall),
        state=f"{state} ({STORAGE[watch.membership]})" if watch.membership in STORAGE else state,
        stalled_for=watch.audit.stalled_for,
        threshold=watch.track.objective.threshold,
        quantile=watch.track.objective.quantile,
        events=line.window.events,
        p50=figure(line.p50),
        judged=figure(line.judged),
        p999=figure(condition.quantile_of(line.window, condition.P999)),
        last_event=None if received.last_wall is None else time_of(received.last_wall),
        behind=max(0, (newest or 0) - (received.revision or 0)) if known else None,
        closes=sum(count for (class_, _), count in watch.outcomes.closed.items() if class_ not in ("deadline", "own")),
        relists=sum(count for reason, count in watch.lists.relists.items() if reason != "start"),
        expired=sum(watch.lists.expired.values()),
        bookmark_age=received.bookmark_age,
        failed_at=time_of(failure.at_wall) if failure else None,
        failure=failure.message if failure else None,
        bad=line.condition in BAD,
        severity=WORST_FIRST.index(line.condition),
        caption="",
        cells=(),
    )
    return replace(made, caption=_caption(made), cells=_watch_cells(made, port))


def figure(quantile: QuantileReading | None) -> QuantileStatus | None:
    """Return a quantile as the API has it."""
    return part_of(QuantileStatus, quantile) if quantile else None


def reactions(snapshot: Snapshot) -> list[ReactionLine]:
    """Return the rows of all steps that have events or pending objects, in the order of the snapshot."""
    return [
        ReactionLine(key=f"{each.name} {each.step}", bad=bool(each.slow), cells=reaction_cells(each))
        for each in shown_reactions(part_of(ReactionStatus, reading) for reading in snapshot.reactions)
    ]


def clients(snapshot: Snapshot) -> list[ClientLine]:
    """Return the rows of all programs whose informers are timed, in the order of the snapshot."""
    return [*client_lines(part_of(ClientStatus, reading) for reading in snapshot.clients)]


def apiservers(snapshot: Snapshot) -> list[ApiserverLine]:
    """Return the rows of all apiservers, in the order of the snapshot."""
    port = _port(snapshot)
    return [_apiserver(apiserver, snapshot, port) for apiserver in snapshot.apiservers]


def _apiserver(apiserver: ApiserverReading, snapshot: Snapshot, port: str) -> ApiserverLine:
    watches = [watch for watch in snapshot.watches if watch.apiserver == apiserver.name]
    tickers = [ticker for domain in snapshot.domains for ticker in domain.tickers if ticker.apiserver == apiserver.name]
    behind = [watch.cache.behind_peers for watch in watches if watch.cache.behind_peers is not None]
    excesses = [(watch.behind_fastest.p50, watch.behind_fastest.p99) for watch in watches if watch.behind_fastest]
    known = [(watch.headroom, watch.watch) for watch in watches if watch.headroom and not watch.headroom.complete]
    headroom, shortest = min(known, key=lambda pair: pair[0].seconds.lower, default=(None, None))
    made = ApiserverLine(
        name=apiserver.name,
        version=apiserver.version,
        peers=apiserver.peers,
        role=apiserver.role,
        open=sum(watch.up for watch in watches),
        watches=len(watches),
        tick=_slowest(tickers),
        failure=next((ticker.failure for ticker in tickers if ticker.failure), None),
        p50=_of_minute(apiserver.combined, condition.P50),
        p99=_of_minute(apiserver.combined, condition.P99),
        p999=_of_minute(apiserver.combined, condition.P999),
        own_p99=_of_minute(apiserver.alone, condition.P99),
        behind_peers=max(behind, default=None),
        behind_fastest=max(excesses, default=None),
        remembers=headroom.seconds.lower if headroom else None,
        remembers_of=shortest,
        fits=headroom.fits if headroom else None,
        causes=tuple(sorted({cause.cause for cause in snapshot.causes if cause.apiserver == apiserver.name})),
        cells=(),
    )
    return replace(made, cells=_apiserver_cells(made, port))


def _slowest(tickers: Iterable[TickerReading]) -> float | None:
    return max((ticker.median_round_trip for ticker in tickers if ticker.median_round_trip is not None), default=None)


def _of_minute(window: WindowReading | None, q: float) -> QuantileStatus | None:
    return figure(condition.quantile_of(window, q)) if window and window.events else None
