"""The landing page: one table for people, without a script; for programs there is the status."""

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from string import Template

from watchslo.serve.rendering import Document
from watchslo.snapshot import (
    ApiserverReading,
    CauseReading,
    MonitorReading,
    QuantileReading,
    Snapshot,
    StreamReading,
    TickerReading,
    WindowReading,
)
from watchslo.watch.audit import Verdict as Audit

_INDEX = Template(files(__package__).joinpath("index.html").read_text())
_STYLE = files(__package__).joinpath("style.css").read_text()
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
ABSENT = "–"  # noqa: RUF001 - typography: this is for people
LAST_MINUTE = WindowReading("1m", 60.0, 0, ())  # until one has been evaluated
ROUNDED_TO_SECONDS = 0.9995  # from here on three digits would write 1000 ms
WHOLE_SECONDS = 99.95

_RoundTrips = Mapping[str, float | None]
"""The median round trip of the ticks by domain: what a quantile must exceed to be resolved."""


def encode(snapshot: Snapshot) -> Document:
    """The page of a snapshot."""
    round_trips = {domain.name: domain.median_round_trip for domain in snapshot.domains}
    cluster = snapshot.monitor.cluster
    html = _INDEX.substitute(
        title=escape(f"watchslo: {cluster}" if cluster else "watchslo"),
        style=_STYLE,
        readiness=_readiness(snapshot.monitor),
        unproven="".join(_unproven(apiserver) for apiserver in snapshot.apiservers),
        headline=_headline(snapshot),
        apiservers="\n".join(_apiserver_row(apiserver, snapshot) for apiserver in snapshot.apiservers),
        rows="\n".join(_row(stream, round_trips) for stream in snapshot.streams),
        version=escape(snapshot.monitor.build.version),
        at=_time(snapshot.at_wall),
    )
    return Document(html.encode(), "text/html; charset=utf-8", HEADERS)


def duration(seconds: float) -> str:
    """Three digits and a unit: `0.85 ms`, `12.3 ms`, `1.25 s`, `128 s`."""
    if math.isinf(seconds):
        return "∞"
    if seconds < ROUNDED_TO_SECONDS:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < WHOLE_SECONDS else f"{seconds:.0f} s"


def _time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _readiness(monitor: MonitorReading) -> str:
    if monitor.paused:
        return '<p class="bad">Paused by the configuration.</p>'
    if not monitor.not_ready:
        return "<p>Ready.</p>"
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in monitor.not_ready)
    return f'<p class="bad">Not ready:</p><ul>{reasons}</ul>'


def _unproven(apiserver: ApiserverReading) -> str:
    if not apiserver.unproven:
        return ""
    return f'<p class="bad">Unproven through {escape(apiserver.name)}: {escape(apiserver.unproven)}</p>'


def _headline(snapshot: Snapshot) -> str:
    """The surest cause in a sentence, what to look at next, and the other causes; no claim before it is of use."""
    if not snapshot.causes:
        unsure = snapshot.monitor.paused or snapshot.monitor.not_ready
        return "" if unsure else '<p class="headline">Nothing is late that has a name.</p>'
    first, *others = snapshot.causes
    more = "".join(f"<li>{_cause(cause)}</li>" for cause in others)
    return f'<p class="headline bad">{_cause(first)}</p><p>{escape(first.next)}</p>' + (
        f'<ul class="quiet">{more}</ul>' if more else ""
    )


def _cause(cause: CauseReading) -> str:
    since = f"{cause.confidence} confidence, since {_time(cause.since_wall)}"
    return f"{escape(cause.evidence)} <small>{escape(str(cause.cause))}: {since}</small>"


def _apiserver_row(apiserver: ApiserverReading, snapshot: Snapshot) -> str:
    streams = [stream for stream in snapshot.streams if stream.apiserver == apiserver.name]
    up = sum(stream.up for stream in streams)
    ticks = [ticker for domain in snapshot.domains for ticker in domain.tickers if ticker.apiserver == apiserver.name]
    blamed = sorted({cause.cause for cause in snapshot.causes if cause.apiserver == apiserver.name})
    stands_for = f" (stands for {apiserver.peers})" if (apiserver.peers or 1) > 1 else ""
    cells = (
        f'<th scope="row">{escape(apiserver.name)}</th>',
        _cell(f"{apiserver.version or ABSENT}{stands_for}"),
        _cell(f"{up} of {len(streams)}" if apiserver.watched else "not watched", ("bad",) if up < len(streams) else ()),
        _ticks(ticks),
        _cell(_of_minute(apiserver.combined, 0.5), ("number",)),
        _cell(_of_minute(apiserver.combined, 0.99), ("number",)),
        _cell(_of_minute(apiserver.alone, 0.99), ("number", "quiet")),
        _cell(_worst([s.behind_peers for s in streams if s.behind_peers is not None]), ("number",)),
        _history(streams),
        _cell(", ".join(blamed) or ABSENT, ("bad",) if blamed else ("quiet",)),
    )
    return f"<tr>{''.join(cells)}</tr>"


def _ticks(tickers: Iterable[TickerReading]) -> str:
    """The slowest clock's median round trip, or why one gets no answer."""
    tickers = tuple(tickers)
    failing = next((ticker.failure for ticker in tickers if ticker.failure), None)
    if failing:
        return _cell(failing, ("bad",))
    return _cell(_worst([t.median_round_trip for t in tickers if t.median_round_trip is not None]), ("number",))


def _worst(durations: Iterable[float]) -> str:
    worst = max(durations, default=None)
    return ABSENT if worst is None else duration(worst)


def _of_minute(window: WindowReading | None, q: float) -> str:
    quantiles = window.quantiles if window and window.events else ()
    return _estimate(next((quantile for quantile in quantiles if quantile.q == q), None), None)


def _history(streams: Iterable[StreamReading]) -> str:
    """The resource whose clients may be away for the shortest time."""
    known = [(stream.history, stream.watch) for stream in streams if stream.history and not stream.history.complete]
    if not known:
        return _cell(ABSENT, ("number",))
    history, watch = min(known, key=lambda one: one[0].seconds.lower)
    return _cell(
        f"{duration(history.seconds.lower)} ({watch})", ("number", "bad") if history.fits is False else ("number",)
    )


def _row(stream: StreamReading, round_trips: _RoundTrips) -> str:
    window = next((window for window in stream.track.windows if window.name == LAST_MINUTE.name), LAST_MINUTE)
    quantiles = {quantile.q: quantile for quantile in window.quantiles}
    median, p99 = quantiles.get(0.5), quantiles.get(0.99)
    round_trip = round_trips.get(stream.domain)
    cells = (
        f'<th scope="row">{escape(stream.watch)}</th>',
        _cell(f"{stream.resource}.{stream.group}" if stream.group else stream.resource),
        _cell(stream.apiserver),
        _cell(_state(stream), () if stream.up and stream.stalled_for is None else ("bad",)),
        _cell(_estimate(median, round_trip), ("number",)),
        _cell(_estimate(p99, round_trip), ("number",)),
        _cell(f"{duration(p99.lower)} to {duration(p99.upper)}" if p99 else ABSENT, ("number", "quiet")),
        _cell(f"{window.events:,}", ("number",)),
        _objective(stream, window, p99),
        _cell(_failure(stream), ("quiet",)),
    )
    return f"<tr>{''.join(cells)}</tr>"


def _cell(text: str, classes: Iterable[str] = ()) -> str:
    names = " ".join(classes)
    return f'<td class="{names}">{escape(text)}</td>' if names else f"<td>{escape(text)}</td>"


def _state(stream: StreamReading) -> str:
    """With what keeps events from arriving or from being measured, though the watch is open."""
    stalled = () if stream.stalled_for is None else (f"stalled for {duration(stream.stalled_for)}",)
    unclocked = () if stream.membership == "member" else (f"clock: {stream.membership}",)
    notes = ", ".join((*stalled, *unclocked))
    return f"{stream.state} ({notes})" if notes else stream.state


def _estimate(quantile: QuantileReading | None, round_trip: float | None) -> str:
    if quantile is None:
        return ABSENT
    if quantile.resolved:
        return duration(quantile.estimate)
    return f"below {duration(round_trip)}" if round_trip else "unresolved"


def _objective(stream: StreamReading, window: WindowReading, p99: QuantileReading | None) -> str:
    threshold = stream.track.objective.threshold
    goal = f"P99 < {duration(threshold)}"
    if p99 and window.events and p99.estimate > threshold:
        return _cell(f"{goal}: missed", ("bad",))
    if stream.stalled_for is not None and stream.stalled_for > threshold:
        return _cell(f"{goal}: unknown while stalled", ("bad",))  # what came before the stall says nothing of now
    if p99 and window.events:
        return _cell(f"{goal}: met")
    return _cell(f"{goal}: no events{', proven idle' if stream.audit == Audit.IDLE else ''}", ("quiet",))


def _failure(stream: StreamReading) -> str:
    failure = stream.last_failure
    return f"{_time(failure.at_wall)} {failure.message}" if failure else ABSENT
