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
    MonitorReading,
    QuantileReading,
    Snapshot,
    StreamReading,
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

_RoundTrips = Mapping[tuple[str, str], float | None]
"""The median round trip of the ticks by domain and apiserver: what a quantile must exceed to be resolved."""


def encode(snapshot: Snapshot) -> Document:
    """The page of a snapshot."""
    round_trips = {(domain.name, domain.apiserver): domain.median_round_trip for domain in snapshot.domains}
    cluster = snapshot.monitor.cluster
    html = _INDEX.substitute(
        title=escape(f"watchslo: {cluster}" if cluster else "watchslo"),
        style=_STYLE,
        readiness=_readiness(snapshot.monitor),
        unproven="".join(_unproven(apiserver) for apiserver in snapshot.apiservers),
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


def _row(stream: StreamReading, round_trips: _RoundTrips) -> str:
    window = next((window for window in stream.track.windows if window.name == LAST_MINUTE.name), LAST_MINUTE)
    quantiles = {quantile.q: quantile for quantile in window.quantiles}
    median, p99 = quantiles.get(0.5), quantiles.get(0.99)
    round_trip = round_trips.get((stream.domain, stream.apiserver))
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
