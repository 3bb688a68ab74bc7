"""The headline: which watches are late, since when and how sure that is, or why it cannot be known. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from watchslo.snapshot import DomainReading, QuantileReading, Snapshot
from watchslo.timeline.condition import Condition, WatchCondition
from watchslo.timeline.format import MINUTE, NAMED, counted, duration, estimated, lasting, percentile, since, some_of

STOPPED_SECONDS = 5.0  # without a tick: about ten ticks failed
STOPPED_GAPS = 3.0  # mean gaps without a tick, if ticks are rare
CLOSED_SECONDS = 10.0  # a healthy watch reopens within this time
COARSE_SHARE = 0.15  # of the threshold: a median of this size counts as late, so a resolution must be below it


class Level(StrEnum):
    """The level of a statement, for colours and signs."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Headline:
    """The first sentence of the page. `text` stays while nothing changes; `figures` are current, or empty."""

    level: Level
    text: str
    figures: str = ""
    since_wall: float | None = None


def headline(snapshot: Snapshot, lines: Sequence[WatchCondition]) -> Headline:
    """Return the headline for all watches, and how long it has lasted."""
    found = _verdict(snapshot, lines)
    if found.since_wall is None or snapshot.at_wall - found.since_wall < MINUTE:
        return found
    lasts = f"for {lasting(snapshot.at_wall - found.since_wall)}"
    return replace(found, figures="; ".join(filter(None, (lasts, found.figures))))


def _verdict(snapshot: Snapshot, lines: Sequence[WatchCondition]) -> Headline:
    """Return the most important statement: first what prevents measuring, then what is late."""
    if snapshot.monitor.paused:
        return Headline(Level.UNKNOWN, "Cannot tell: paused by the configuration.")
    if stopped := _stopped(snapshot):
        return stopped
    late = _of(lines, Condition.LATE)
    stalled = _of(lines, Condition.STALLED)
    if late or stalled:
        return _joined(
            [describe(some, lines, snapshot.at_wall) for describe, some in ((_late, late), (_stalled, stalled)) if some]
        )
    if snapshot.monitor.not_ready:
        return Headline(Level.UNKNOWN, "Cannot tell yet: not every watch has been opened, or a clock does not tick.")
    closed = [line for line in _of(lines, Condition.CLOSED) if snapshot.at_wall - line.since_wall >= CLOSED_SECONDS]
    if closed:
        return _closed(closed, lines, snapshot.at_wall)
    return _undecided(lines) or _coarse(snapshot, lines) or _well(lines)


def _of(lines: Sequence[WatchCondition], condition: Condition) -> list[WatchCondition]:
    """Return the watches in that condition, the longest first."""
    return sorted((line for line in lines if line.condition is condition), key=lambda line: line.since_wall)


def stopped_for(domain: DomainReading) -> float | None:
    """Return for how many seconds a clock has not ticked; infinite if it never did, None while it ticks."""
    ages = [ticker.answered_ago for ticker in domain.tickers if ticker.answered_ago is not None]
    age, gap = min(ages, default=float("inf")), min((ticker.gap for ticker in domain.tickers), default=0.0)
    return age if age > max(STOPPED_SECONDS, STOPPED_GAPS * gap) else None


def _stopped(snapshot: Snapshot) -> Headline | None:
    """Return a headline if no clock ticks at all: with one of several, the watches of the others are measured."""
    ages = [stopped_for(domain) for domain in snapshot.domains]
    if not ages or None in ages:
        return None
    age = min(age for age in ages if age is not None)
    why = next((t.failure for domain in snapshot.domains for t in domain.tickers if t.failure), None) or ""
    if any(why in reason for reason in snapshot.monitor.not_ready):
        why = ""  # it is shown next to the headline already
    if age == float("inf"):
        return Headline(Level.UNKNOWN, "Cannot tell: the clock has not ticked yet.", why)
    wall = snapshot.at_wall - age
    return Headline(Level.UNKNOWN, f"Cannot tell: the clock has not ticked {since(wall, snapshot.at_wall)}.", why, wall)


def _joined(headlines: Sequence[Headline]) -> Headline:
    if len(headlines) == 1:
        return headlines[0]
    text, figures = ("; ".join(parts) for parts in zip(*((one.text, one.figures) for one in headlines), strict=True))
    began = [one.since_wall for one in headlines if one.since_wall is not None]
    return Headline(Level.BAD, text, figures, min(began, default=None))


def _late(late: Sequence[WatchCondition], lines: Sequence[WatchCondition], now_wall: float) -> Headline:
    """Return which watches are late and since when, with the figures of the worst."""
    began = late[0].since_wall
    worst = sorted(late, key=_estimate, reverse=True)[:NAMED]
    figures = [_figures(late[0])] if len(late) == 1 else [f"{line.name}: {_figures(line)}" for line in worst]
    text = f"{_named(late, lines)}: late{_since(late, now_wall)}"
    return Headline(Level.BAD, text, "; ".join(figures), began)


def _named(some: Sequence[WatchCondition], lines: Sequence[WatchCondition]) -> str:
    """Return the names of a few watches, or the number of many."""
    if len(some) <= NAMED:
        return some_of([line.name for line in some])
    return f"{len(some):,} of {counted(len(lines), 'watch')}"


def _since(some: Sequence[WatchCondition], now_wall: float) -> str:
    """Return since when; if the watches did not begin together, since when the first one."""
    first, *others = (since(line.since_wall, now_wall) for line in some)
    return f", the first {first}" if any(other != first for other in others) else f" {first}"


def _estimate(line: WatchCondition) -> float:
    return line.judged.estimate if line.judged else 0.0


def _figures(line: WatchCondition) -> str:
    assert line.judged is not None
    judged, events = line.judged, counted(line.window.events, "event")
    figure = f"{percentile(judged.q)} {estimated(judged.estimate, rough=judged.rough)}"
    return f"{figure} ({_bounds(judged)}), threshold {_threshold([line])}, {events}"


def _bounds(judged: QuantileReading) -> str:
    return f"bounds {duration(judged.lower)} to {duration(judged.upper)}"


def _threshold(lines: Sequence[WatchCondition]) -> str:
    thresholds = {line.stream.track.objective.threshold for line in lines}
    return duration(thresholds.pop()) if len(thresholds) == 1 else "their thresholds"


def _stalled(stalled: Sequence[WatchCondition], lines: Sequence[WatchCondition], now_wall: float) -> Headline:
    began = stalled[0].since_wall
    longest = max(line.stream.audit.stalled_for or 0.0 for line in stalled)
    text = f"{_named(stalled, lines)}: no events delivered{_since(stalled, now_wall)}"
    return Headline(Level.BAD, text, f"oldest undelivered event: {duration(longest)} ago", began)


def _closed(closed: Sequence[WatchCondition], lines: Sequence[WatchCondition], now_wall: float) -> Headline:
    names = some_of([line.name for line in closed])
    began = closed[0].since_wall
    text = f"{len(closed)} of {counted(len(lines), 'watch')} cannot be kept open{_since(closed, now_wall)}"
    failure = closed[0].stream.session.last_failure
    return Headline(Level.BAD, text, f"{names}. {failure.message if failure else ''}".rstrip(), began)


def _coarse(snapshot: Snapshot, lines: Sequence[WatchCondition]) -> Headline | None:
    """Return a headline if ticks take so long that figures of watches within their thresholds are below them."""
    within = _of(lines, Condition.WITHIN)
    resolutions = {domain.name: domain.resolution or 0.0 for domain in snapshot.domains}
    unresolved = [line for line in within if line.judged and not line.judged.resolved]
    known = [(resolutions.get(line.stream.domain, 0.0), line.stream.track.objective.threshold) for line in unresolved]
    coarse = [resolution for resolution, threshold in known if resolution >= COARSE_SHARE * threshold]
    if not coarse:
        return None
    well = _well(lines)
    figures = f"ticks take {duration(max(coarse))}, and latencies below that look alike"
    return Headline(
        well.level,
        f"{well.text.removesuffix('.')}, but short latencies cannot be distinguished.",
        "; ".join(filter(None, (figures, well.figures))),
    )


def _undecided(lines: Sequence[WatchCondition]) -> Headline | None:
    """Return a headline if watches are neither proven late nor in time, with the widest bounds."""
    undecided = _of(lines, Condition.UNDECIDED)
    if not undecided:
        return None
    name, judged = max(
        ((line.name, line.judged) for line in undecided if line.judged), key=lambda named: named[1].upper
    )
    text = f"No watch is proven late, but {_named(undecided, lines)} cannot be judged."
    figures = f"{name}: {percentile(judged.q)} {_bounds(judged)}, threshold {_threshold(undecided)}"
    return Headline(Level.UNKNOWN, text, figures)


def _well(lines: Sequence[WatchCondition]) -> Headline:
    """Return the headline without late watches, and how many watches it is based on."""
    count = Counter(line.condition for line in lines)
    within, idle = count[Condition.WITHIN], count[Condition.IDLE]
    if not within and not (lines and idle == len(lines)):
        return Headline(Level.UNKNOWN, "Cannot tell: no watch has had enough events lately.")
    if not within:
        return Headline(Level.GOOD, f"All {counted(len(lines), 'watch')} are idle (proven by audits).")
    goal = _threshold(lines)
    if within == len(lines):
        one = len(lines) == 1
        return Headline(Level.GOOD, f"{lines[0].name} is within {goal}." if one else _all_within(len(lines), goal))
    rest = [f"{idle:,} idle"] if idle else []
    unknown = len(lines) - within - idle
    rest += [f"{unknown:,} not judged"] if unknown else []
    return Headline(Level.GOOD, "No watch is late.", f"{within:,} within {goal}, {', '.join(rest)}")


def _all_within(count: int, goal: str) -> str:
    return f"All {counted(count, 'watch')} are within {goal}."
