"""What a terminal shows of a status: that of our own measurement, or of a daemon. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from watchslo.api.part import decode
from watchslo.api.status import ClientStatus, DomainStatus, QuantileStatus, ReactionStatus, StatusDocument, WatchStatus
from watchslo.serve.status import status_of
from watchslo.serve.tables import shown_reactions
from watchslo.snapshot import Snapshot
from watchslo.timeline.condition import WatchVerdict, placed, verdict_on, verdict_on_events
from watchslo.timeline.explanation import why_undated
from watchslo.timeline.format import printable
from watchslo.timeline.timeline import Account

NOT_YET = "Cannot tell yet: the first evaluation takes five seconds."

T = TypeVar("T", "Line", "View")


@dataclass(frozen=True, slots=True)
class Line:
    """One watch: the quantiles of its window by q, the verdict on one `quantile`, and what prevents a verdict.

    `condition` is what the page calls its state; a newer daemon may have conditions that are unknown here.
    `failure` is the last failure in a sentence and `reason` in one word; `tainted` is the share of tainted events.
    `received` counts the live events that came, and `undated` says why none of them was dated, if that is so.
    """

    watch: str
    apiserver: str
    resource: str
    group: str
    state: str
    up: bool
    membership: str
    audit: str | None
    stalled_for: float | None
    down_for: float | None
    failure: str | None
    reason: str | None
    tainted: float
    received: int
    undated: str | None
    threshold: float
    quantile: float
    min_events: int
    events: int
    quantiles: Mapping[float, QuantileStatus]
    verdict: WatchVerdict
    condition: str

    @property
    def name(self) -> str:
        """The watch and its apiserver, which is left out if a single one answers for all."""
        return placed(self.watch, self.apiserver)

    @property
    def measurable(self) -> bool:
        """False once its revisions are known to be no numbers."""
        return self.membership != "unparsable"

    @property
    def judged(self) -> QuantileStatus | None:
        """The quantile that the objective names."""
        return self.quantiles.get(self.quantile)


@dataclass(frozen=True, slots=True)
class View:
    """A measurement at `at_wall`, after `seconds` of measuring.

    `verdict` says whether watches are late and since when, `trust` whether watchslo itself may be late; None before the
    first evaluation. `part` is what is measured if other instances measure the rest, and `elsewhere` the number of
    watches on other shards. `lines` are sorted by name. `causes` (the most certain first), `unproven` (apiservers whose
    revisions cannot be trusted) and `not_ready` are sentences. watchslo was late itself for `tainted_seconds` in total.
    `reactions` has the steps with events or pending objects, `clients` the programs whose informers are timed.
    """

    at_wall: float
    verdict: str | None
    trust: str | None
    seconds: float
    cluster: str | None
    part: str | None
    elsewhere: int
    lines: tuple[Line, ...]
    causes: tuple[str, ...]
    unproven: tuple[str, ...]
    not_ready: tuple[str, ...]
    tainted_seconds: float
    reactions: tuple[ReactionStatus, ...] = ()
    clients: tuple[ClientStatus, ...] = ()


def view_of(snapshot: Snapshot, account: Account | None = None) -> View:
    """Return the view of our own measurement."""
    return _view(status_of(snapshot, account))


def read(body: bytes) -> View:
    """Return the view of a daemon's status; raises UnreadableError."""
    return _view(decode(body, StatusDocument))


def _view(status: StatusDocument) -> View:
    monitor, clocks = status.monitor, _stopped(status.domains)
    return _printable(
        View(
            at_wall=status.at.timestamp(),
            verdict=_sentence(status.verdict.text, status.verdict.figures) if status.verdict else None,
            trust=f"{status.trust.name} {status.trust.text}" if status.trust else None,
            seconds=max(0.0, (status.at - monitor.started_at).total_seconds()),  # the wall clock may be set back
            cluster=status.cluster,
            part=monitor.instance.part,
            elsewhere=monitor.shard.elsewhere,
            lines=_sorted(_line(watch, clocks.get(watch.domain)) for watch in status.watches),
            causes=tuple(cause.sentence for cause in status.causes),
            unproven=tuple(f"Unproven: {apiserver.unproven}." for apiserver in status.apiservers if apiserver.unproven),
            not_ready=monitor.not_ready,
            tainted_seconds=monitor.tainted_seconds,
            reactions=shown_reactions(status.reactions),
            clients=status.clients,
        )
    )


def _line(watch: WatchStatus, clock: str | None) -> Line:
    """Return the line of a watch; `clock` is why its clock does not tick, if it does not."""
    latency, objective, failure = watch.latency, watch.latency.objective, watch.last_failure
    window = latency.judged
    events = window.events if window else 0
    stalled_for, down_for = watch.stalled_for, watch.down_for
    verdict = verdict_on_events(latency.verdict, events)
    received = sum(count for type_, count in watch.events.items() if type_ != "ERROR")
    return Line(
        watch=watch.watch,
        apiserver=watch.apiserver,
        resource=watch.resource,
        group=watch.group,
        state=watch.state,
        up=watch.up,
        membership=watch.membership,
        audit=watch.last_audit,
        stalled_for=stalled_for,
        down_for=down_for,
        failure=failure.message if failure else None,
        reason=failure.reason if failure else None,
        tainted=_share(latency.unmeasured, watch.events),
        received=received,
        undated=_undated(received, objective.verdicts, latency.unmeasured, watch.membership, clock),
        threshold=objective.threshold,
        quantile=objective.quantile,
        min_events=objective.min_events,
        events=events,
        quantiles={quantile.q: quantile for quantile in window.quantiles} if window else {},
        verdict=verdict_on(verdict, objective.threshold, stalled_for=stalled_for, down_for=down_for),
        condition=watch.condition,
    )


def _sorted(lines: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(sorted(map(_printable, lines), key=lambda line: (line.watch, line.apiserver)))


def _sentence(text: str, figures: str) -> str:
    parts = (part.rstrip(".") for part in (text, figures) if part)
    return f"{'; '.join(parts)}."


def _stopped(domains: Iterable[DomainStatus]) -> dict[str, str]:
    """Return why clocks do not tick through any apiserver, by their names."""
    failures = {domain.name: [ticker.failure for ticker in domain.tickers] for domain in domains}
    return {name: why[0] for name, why in failures.items() if why and why[0] and all(why)}


def _undated(
    received: int, verdicts: Mapping[str, int], unmeasured: Mapping[str, int], membership: str, clock: str | None
) -> str | None:
    """Return why none of the events that came is a sample; None if one is, or if none came."""
    return why_undated(unmeasured, membership, clock) if received and not sum(verdicts.values()) else None


def _share(unmeasured: Mapping[str, int], events: Mapping[str, int]) -> float:
    """The share of tainted events."""
    return unmeasured.get("tainted", 0) / max(1, sum(events.values()))


def _printable(value: T) -> T:
    """Replace control characters in all texts: a terminal would obey them, and a status may come from anywhere."""
    texts: dict[str, Any] = {}
    for field in fields(value):
        text = getattr(value, field.name)
        if type(text) is str:
            texts[field.name] = printable(text)
        elif isinstance(text, tuple):
            texts[field.name] = tuple(printable(line) if isinstance(line, str) else line for line in text)
    return replace(value, **texts)
