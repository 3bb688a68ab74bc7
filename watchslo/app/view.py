"""What a terminal shows: of our own measurement from its snapshot, or of a daemon from its `/api/v1/status`. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from watchslo.documents import decode_document
from watchslo.errors import UNDECODABLE
from watchslo.model import Interval
from watchslo.serve.status import condition_of, conditions_in
from watchslo.snapshot import DomainReading, QuantileReading, Snapshot, StreamReading, WindowVerdict
from watchslo.timeline.condition import NO_WINDOW, P99, Condition, WatchVerdict, placed, verdict_on, verdict_on_events
from watchslo.timeline.explanation import why_undated
from watchslo.timeline.format import printable
from watchslo.timeline.timeline import Account

NOT_YET = "Cannot tell yet: the first evaluation takes five seconds."

T = TypeVar("T", "Line", "View")


class UnreadableError(Exception):
    """The answer is not the status of a daemon, or of an unknown version of the API."""


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
    quantiles: Mapping[float, QuantileReading]
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
    def judged(self) -> QuantileReading | None:
        """The quantile that the objective names."""
        return self.quantiles.get(self.quantile)


@dataclass(frozen=True, slots=True)
class View:
    """A measurement at `at_wall`, after `seconds` of measuring.

    `verdict` says whether watches are late and since when, `trust` whether watchslo itself may be late; None before the
    first evaluation. `part` is what is measured if other instances measure the rest, and `elsewhere` the number of
    watches on other shards. `lines` are sorted by name. `causes` (the most certain first), `unproven` (apiservers whose
    revisions cannot be trusted) and `not_ready` are sentences. watchslo was late itself for `tainted_seconds` in total.
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


# --- our own measurement ----------------------------------------------------------------------------------------------


def view_of(snapshot: Snapshot, account: Account | None = None) -> View:
    """Return the view of our own measurement."""
    monitor = snapshot.monitor
    conditions, clocks = conditions_in(account), _stopped(snapshot.domains)
    return _printable(
        View(
            at_wall=snapshot.at_wall,
            verdict=_sentence(account.headline.text, account.headline.figures) if account else None,
            trust=f"{account.trust.name} {account.trust.text}" if account else None,
            seconds=max(0.0, snapshot.at_wall - monitor.started_wall),  # the wall clock may be set back
            cluster=monitor.instance.cluster,
            part=monitor.instance.part,
            elsewhere=monitor.shard.elsewhere,
            lines=_sorted(
                _line_of(stream, condition_of(stream, conditions), clocks.get(stream.domain))
                for stream in snapshot.streams
            ),
            causes=tuple(_cause(one.evidence, one.cause, one.confidence, one.next) for one in snapshot.causes),
            unproven=tuple(f"Unproven: {one.unproven}." for one in snapshot.apiservers if one.unproven),
            not_ready=monitor.not_ready,
            tainted_seconds=monitor.tainted_seconds,
        )
    )


def _line_of(stream: StreamReading, condition: Condition, clock: str | None) -> Line:
    """Return the line of a watch; `clock` is why its clock does not tick, if it does not."""
    window, objective, failure = stream.track.judged or NO_WINDOW, stream.track.objective, stream.session.last_failure
    stalled_for, down_for = stream.audit.stalled_for, stream.down_for
    verdict = verdict_on_events(stream.track.verdict, window.events)
    return Line(
        watch=stream.watch,
        apiserver=stream.apiserver,
        resource=stream.resource,
        group=stream.group,
        state=stream.session.state,
        up=stream.up,
        membership=stream.membership,
        audit=stream.audit.result,
        stalled_for=stalled_for,
        down_for=down_for,
        failure=failure.message if failure else None,
        reason=failure.reason if failure else None,
        tainted=_share(stream.track.unmeasured, stream.received.events),
        received=stream.received.changes,
        undated=_undated(
            stream.received.changes, objective.verdicts, stream.track.unmeasured, stream.membership, clock
        ),
        threshold=objective.threshold,
        quantile=objective.quantile,
        min_events=objective.min_events,
        events=window.events,
        quantiles={one.q: one for one in window.quantiles},
        verdict=verdict_on(verdict, objective.threshold, stalled_for=stalled_for, down_for=down_for),
        condition=condition.value,
    )


# --- a daemon's status: the part of /api/v1/status that is shown ------------------------------------------------------


class _RemotePart(msgspec.Struct, rename="camel", frozen=True):
    """Decoded from camelCase; unknown fields are ignored."""


class _RemoteInterval(_RemotePart, frozen=True):
    lower: float
    upper: float


class _RemoteQuantile(_RemotePart, frozen=True):
    q: float
    lower: float
    estimate: float | None
    upper: float | None
    resolution: float = 0.0
    rough: bool = False
    probable: _RemoteInterval | None = None


class _RemoteWindow(_RemotePart, frozen=True):
    name: str
    events: int
    quantiles: list[_RemoteQuantile]


class _RemoteObjective(_RemotePart, frozen=True):
    threshold: float
    min_events: int
    quantile: float = P99
    verdicts: dict[str, int] = {}


class _RemoteLatency(_RemotePart, frozen=True):
    """`judged` and `verdict` are missing in the status of older daemons, which judge P99 of the last minute."""

    unmeasured: dict[str, int]
    windows: list[_RemoteWindow]
    objective: _RemoteObjective
    judged: _RemoteWindow | None = None
    verdict: WindowVerdict | None = None


class _RemoteFailure(_RemotePart, frozen=True):
    reason: str
    message: str


class _RemoteStream(_RemotePart, frozen=True):
    watch: str
    apiserver: str
    resource: str
    group: str
    state: str
    up: bool
    domain: str
    membership: str
    events: dict[str, int]
    last_audit: str | None
    stalled_for: float | None
    last_failure: _RemoteFailure | None
    latency: _RemoteLatency
    down_for: float | None = None
    condition: str | None = None


class _RemoteCause(_RemotePart, frozen=True):
    cause: str
    confidence: str
    evidence: str
    next: str


class _RemoteApiserver(_RemotePart, frozen=True):
    unproven: str | None


class _RemoteTicker(_RemotePart, frozen=True):
    failure: str | None = None


class _RemoteDomain(_RemotePart, frozen=True):
    name: str
    median_round_trip: float | None
    tickers: list[_RemoteTicker] = []


class _RemoteVerdict(_RemotePart, frozen=True):
    text: str
    figures: str


class _RemoteCheck(_RemotePart, frozen=True):
    name: str
    text: str


class _RemoteInstance(_RemotePart, frozen=True):
    """Missing in the status of older daemons."""

    cluster: str | None = None
    part: str | None = None


class _RemoteShard(_RemotePart, frozen=True):
    elsewhere: int = 0


class _RemoteMonitor(_RemotePart, frozen=True):
    cluster: str | None
    started_at: datetime
    tainted_seconds: float
    not_ready: list[str]
    shard: _RemoteShard = _RemoteShard()
    instance: _RemoteInstance = _RemoteInstance()


class _RemoteStatus(_RemotePart, frozen=True):
    at: datetime
    monitor: _RemoteMonitor
    causes: list[_RemoteCause]
    apiservers: list[_RemoteApiserver]
    domains: list[_RemoteDomain]
    streams: list[_RemoteStream]
    verdict: _RemoteVerdict | None = None
    trust: _RemoteCheck | None = None


def read(body: bytes) -> View:
    """Return the view of a daemon's status; raises UnreadableError."""
    try:
        status = decode_document(body, _RemoteStatus)
    except UNDECODABLE:
        raise UnreadableError from None
    clocks = _stopped(status.domains)
    return _printable(
        View(
            at_wall=status.at.timestamp(),
            verdict=_sentence(status.verdict.text, status.verdict.figures) if status.verdict else None,
            trust=f"{status.trust.name} {status.trust.text}" if status.trust else None,
            seconds=max(0.0, (status.at - status.monitor.started_at).total_seconds()),
            cluster=status.monitor.instance.cluster or status.monitor.cluster,
            part=status.monitor.instance.part,
            elsewhere=status.monitor.shard.elsewhere,
            lines=_sorted(_line_in(stream, clocks.get(stream.domain)) for stream in status.streams),
            causes=tuple(_cause(one.evidence, one.cause, one.confidence, one.next) for one in status.causes),
            unproven=tuple(f"Unproven: {one.unproven}." for one in status.apiservers if one.unproven),
            not_ready=tuple(status.monitor.not_ready),
            tainted_seconds=status.monitor.tainted_seconds,
        )
    )


def _line_in(stream: _RemoteStream, clock: str | None) -> Line:
    latency, objective, failure = stream.latency, stream.latency.objective, stream.last_failure
    minute = next((one for one in latency.windows if one.name == NO_WINDOW.name), _RemoteWindow(NO_WINDOW.name, 0, []))
    window = latency.judged or minute
    quantiles = {one.q: _quantile(one) for one in window.quantiles}
    decided = latency.verdict or _bounds_verdict(quantiles.get(objective.quantile), window.events, objective)
    verdict, stalled_for = verdict_on_events(decided, window.events), stream.stalled_for
    verdict = verdict_on(verdict, objective.threshold, stalled_for=stalled_for, down_for=stream.down_for)
    received = sum(count for type_, count in stream.events.items() if type_ != "ERROR")
    return Line(
        watch=stream.watch,
        apiserver=stream.apiserver,
        resource=stream.resource,
        group=stream.group,
        state=stream.state,
        up=stream.up,
        membership=stream.membership,
        audit=stream.last_audit,
        stalled_for=stalled_for,
        down_for=stream.down_for,
        failure=failure.message if failure else None,
        reason=failure.reason if failure else None,
        tainted=_share(stream.latency.unmeasured, stream.events),
        received=received,
        undated=_undated(received, objective.verdicts, latency.unmeasured, stream.membership, clock),
        threshold=objective.threshold,
        quantile=objective.quantile,
        min_events=objective.min_events,
        events=window.events,
        quantiles=quantiles,
        verdict=verdict,
        condition=stream.condition or verdict.value,
    )


def _bounds_verdict(judged: QuantileReading | None, events: int, objective: _RemoteObjective) -> WindowVerdict:
    """Return the verdict that the proven bounds of a window give."""
    if judged is None:
        return WindowVerdict.NO_DATA
    if judged.upper <= objective.threshold:
        return WindowVerdict.GOOD
    if judged.lower > objective.threshold:
        return WindowVerdict.BAD
    return WindowVerdict.NO_DATA if events < objective.min_events else WindowVerdict.UNDECIDED


def _quantile(one: _RemoteQuantile) -> QuantileReading:
    """A null in JSON is infinite."""
    estimate, upper = (math.inf if value is None else value for value in (one.estimate, one.upper))
    probable = Interval(one.probable.lower, one.probable.upper) if one.probable else None
    return QuantileReading(one.q, one.lower, estimate, upper, one.resolution, one.rough, probable)


# --- both -------------------------------------------------------------------------------------------------------------


def _sorted(lines: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(sorted(map(_printable, lines), key=lambda line: (line.watch, line.apiserver)))


def _sentence(text: str, figures: str) -> str:
    parts = (part.rstrip(".") for part in (text, figures) if part)
    return f"{'; '.join(parts)}."


def _cause(evidence: str, cause: str, confidence: str, action: str) -> str:
    return f"{evidence} ({cause}, {confidence} confidence) {action}"


def _stopped(domains: Iterable[DomainReading | _RemoteDomain]) -> dict[str, str]:
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
            texts[field.name] = tuple(printable(one) if isinstance(one, str) else one for one in text)
    return replace(value, **texts)
