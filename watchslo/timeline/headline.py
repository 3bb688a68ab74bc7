"""The headline: which watches are late, since when and how sure that is, or why it cannot be known. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median

from watchslo.model import SERVICE, apiserver_text, shared_port
from watchslo.snapshot import (
    ApiserverReading,
    ApiserverRole,
    Cause,
    Confidence,
    DomainReading,
    OverallVerdict,
    Snapshot,
)
from watchslo.timeline.condition import BAD, CLOSED_SECONDS, FORBIDDEN, WELL, Condition, WatchCondition
from watchslo.timeline.figure import between, estimate_text
from watchslo.timeline.format import (
    MINUTE,
    NAMED,
    counted,
    duration,
    lasting,
    minute_of_day,
    percentile,
    since,
    some_of,
)
from watchslo.timeline.proven_hour import NOTHING_PROVEN, ProvenHour
from watchslo.timeline.series import Key
from watchslo.timeline.verdict import Facts, Level, decide

STOPPED_SECONDS = 16.0  # without a tick: a silent storage has been found twice by then, and is said instead
STOPPED_GAPS = 5.0  # mean gaps without a tick, if ticks are rare: some are saved for bursts of events
MOST, TOGETHER_SECONDS = 0.5, 3.0  # if more than this share is closed for so long, no watch that is left makes all well
FORBIDDEN_AUDIT = "This identity may no longer list or watch the resource; grant it."
MOST_NAMED = 5  # apiservers
UNUSUAL = 5.0  # times the usual P50
MUCH_SECONDS = 0.02  # that an apiserver delivers later than the fastest: no cause is named for so little
COARSE_SHARE = 0.15  # of the threshold: a median of this size counts as late, so a resolution must be below it


Sentence = tuple[str, str, float | None]
"""A text, its figures, and since when it holds if that is known."""

BadSentence = tuple[str, str, float]
"""The same of something that is bad, whose beginning is known."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The first sentence of the page, about `verdict`. `text` stays while nothing changes; `figures` are current."""

    verdict: OverallVerdict
    level: Level
    text: str
    figures: str = ""
    since_wall: float | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the headline is about. `overloaded` says that this process could not keep up in the last minute.

    `last_bad_wall` is when the newest bad minute of the last day began; None if there was none. `usual` has the usual
    P50, in seconds, of watches whose P50 is at least `MUCH_SECONDS` now.
    """

    snapshot: Snapshot
    lines: Sequence[WatchCondition]
    overloaded: bool = False
    hour: ProvenHour = NOTHING_PROVEN
    last_bad_wall: float | None = None
    usual: Mapping[Key, float] = field(default_factory=dict)

    @property
    def now_wall(self) -> float:
        return self.snapshot.at_wall

    def of(self, condition: Condition) -> list[WatchCondition]:
        """Return the watches in that condition, the longest first."""
        return sorted((line for line in self.lines if line.condition is condition), key=lambda line: line.since_wall)

    @property
    def closed(self) -> list[WatchCondition]:
        """The watches that are closed for longer than a healthy one needs to reopen, or for a moment if most are.

        One whose right was removed is open until its timeout.
        """
        closed = self.of(Condition.CLOSED)
        together = [line for line in closed if self.now_wall - line.since_wall >= TOGETHER_SECONDS]
        if len(together) > MOST * len(self.lines):
            return together
        lasting = [line for line in closed if self.now_wall - line.since_wall >= CLOSED_SECONDS or _is_down(line)]
        return lasting + [line for line in self.lines if line.watch.up and line.watch.audit.result == FORBIDDEN]

    @property
    def silent(self) -> list[ApiserverReading]:
        """The watched apiservers that answer nothing, the longest first."""
        silent = [
            apiserver
            for apiserver in self.snapshot.apiservers
            if apiserver.watched and apiserver.unresponsive_for is not None
        ]
        return sorted(silent, key=lambda apiserver: apiserver.unresponsive_for or 0.0, reverse=True)

    @property
    def measurable(self) -> list[WatchCondition]:
        """The watches without those that are set aside, because their revisions are no numbers."""
        return [line for line in self.lines if line.watch.measurable]

    def short(self, name: str) -> str:
        """Return the name of a watch or an apiserver, without a port that all apiservers share."""
        return name.removesuffix(shared_port(apiserver.name for apiserver in self.snapshot.apiservers))

    @property
    def clocks(self) -> list[DomainReading]:
        """The clocks that date watches; all of them if there are no watches yet."""
        used = {line.watch.domain for line in self.lines}
        return [domain for domain in self.snapshot.domains if domain.name in used or not used]

    @property
    def stopped(self) -> dict[str, float]:
        """Those of `clocks` that do not tick, by name, and for how many seconds."""
        ages = {domain.name: stopped_for(domain) for domain in self.clocks}
        return {name: age for name, age in ages.items() if age is not None}

    @property
    def is_incomplete(self) -> bool:
        """Whether a watch was never open, or a clock has never ticked: later, what is missing is no start."""
        unopened = any(not line.watch.up and line.watch.received.last_wall is None for line in self.lines)
        unticked = any(all(ticker.answered_ago is None for ticker in domain.tickers) for domain in self.clocks)
        return unopened or unticked or not self.lines

    @property
    def facts(self) -> Facts:
        """What decides the verdict."""
        found = Counter(line.condition for line in self.lines)
        well = found[Condition.WITHIN] + found[Condition.CONNECTED]
        clocks_stopped = bool(self.stopped) and len(self.stopped) == len(self.clocks)
        return Facts(
            paused=self.snapshot.monitor.paused,
            unresponsive=bool(self.silent),
            overloaded=self.overloaded
            or any(cause.cause is Cause.MONITOR_OVERLOADED for cause in self.snapshot.causes),
            clocks_stopped=clocks_stopped,
            a_clock_stopped=bool(self.lines and self.stopped),
            storage_silent=clocks_stopped and is_storage_silent(self.snapshot),
            stalled=found[Condition.STALLED] > 0,
            late=found[Condition.LATE] > 0,
            starting=bool(self.snapshot.monitor.not_ready) and self.is_incomplete,
            down=any(map(_is_down, self.closed)),
            closed=bool(self.closed or self.snapshot.monitor.missing),
            caused=bool(self.snapshot.causes),
            undecided=found[Condition.UNDECIDED] > 0,
            well=well > 0 or 0 < found[Condition.IDLE] == len(self.measurable) - found[Condition.CLOSED],
        )


def headline(assessment: Assessment) -> Headline:
    """Return the headline for all watches, and how long it has lasted."""
    verdict, level = decide(assessment.facts)
    text, figures, since_wall = _SENTENCES[verdict](assessment)
    if since_wall is not None and assessment.now_wall - since_wall >= MINUTE:
        lasts = f"for {lasting(assessment.now_wall - since_wall)}"
        figures = _both(lasts, figures)
    each = _each_apiserver(assessment) if level is Level.BAD else ""
    return Headline(verdict, level, text, _both(figures, each), since_wall)


def _each_apiserver(of: Assessment) -> str:
    """Say of each apiserver whether all is well there, or since when not; nothing if they do not differ.

    Of many apiservers, only the bad ones are named.
    """
    names = [apiserver.name for apiserver in of.snapshot.apiservers if apiserver.watched]
    found = {name: [line for line in of.lines if line.watch.apiserver == name] for name in names}
    silent = {apiserver.name: [of.now_wall - (apiserver.unresponsive_for or 0.0)] for apiserver in of.silent}
    bad, others = [], []
    for name, lines in found.items():
        since_walls = [*(line.since_wall for line in lines if line.condition in BAD), *silent.get(name, [])]
        shown = of.short(apiserver_text(name))
        if since_walls:
            bad.append(f"{shown} ✗ {since(min(since_walls), of.now_wall)}")
        elif lines:
            others.append(f"{shown} {'✓' if any(line.condition in WELL for line in lines) else '?'}")
    if not bad or not others:
        return ""
    return ", ".join([*bad, *(others if len(names) <= MOST_NAMED else [f"{len(others)} others are not"])])


def stopped_for(domain: DomainReading) -> float | None:
    """Return for how many seconds a clock has not ticked; infinite if it never did, None while it ticks."""
    ages = [ticker.answered_ago for ticker in domain.tickers if ticker.answered_ago is not None]
    age, gap = min(ages, default=float("inf")), min((ticker.gap for ticker in domain.tickers), default=0.0)
    return age if age > max(STOPPED_SECONDS, STOPPED_GAPS * gap) else None


def is_storage_silent(snapshot: Snapshot) -> bool:
    """Return True if a cause says, not just as a suspicion, that the storage is slow through every apiserver."""
    return any(
        cause.cause is Cause.STORAGE_SLOW and cause.confidence is not Confidence.LOW for cause in snapshot.causes
    )


# --- one function for each verdict ------------------------------------------------------------------------------------


def _paused(_: Assessment) -> Sentence:
    return "Cannot tell: paused by the configuration.", "", None


def _bad(of: Assessment) -> Sentence:
    """Say everything that is bad, the worst first; since the first of it."""
    texts, figures, began = zip(*chain(_unresponsive(of), _late(of), _stalled(of)), strict=True)
    return "; ".join(texts), _both(*figures), min(began)


def _unresponsive(of: Assessment) -> Iterator[BadSentence]:
    """Say which apiservers answer nothing or refuse connections, and how many of their watches that concerns."""
    if not (silent := of.silent):
        return
    watched = sum(apiserver.watched for apiserver in of.snapshot.apiservers)
    began, refuses = of.now_wall - (silent[0].unresponsive_for or 0.0), all(apiserver.refuses for apiserver in silent)
    if len(silent) == watched > 1:
        text = f"None of the {watched} apiservers answers"
    else:
        verb, what = ("refuse", "connections") if refuses else ("answer", "nothing")
        subject = some_of([of.short(apiserver_text(apiserver.name, is_first=True)) for apiserver in silent])
        text = f"{subject} {verb}{'s' if len(silent) == 1 else ''} {what}"
    names = {apiserver.name for apiserver in silent}
    count = sum(line.watch.apiserver in names for line in of.lines)
    watches = counted(count, "watch") if count else "any watch"
    effect = f"{watches} closed" if refuses and count else f"no event of {watches} can arrive"
    asked = [apiserver for apiserver in of.snapshot.apiservers if apiserver.role is not ApiserverRole.SERVICE]
    cut = all(apiserver.unresponsive_for is not None for apiserver in asked)
    rest = "; nothing else answers either, so the network from here may be cut" if cut else ""
    gone = "; the cluster has withdrawn it" if any(apiserver.withdrawn for apiserver in silent) else ""
    yield f"{text} {since(began, of.now_wall)}", f"{effect}{rest}{gone}", began


def _late(of: Assessment) -> Iterator[BadSentence]:
    """Say which watches are late and since when, with the figures of the worst."""
    if late := of.of(Condition.LATE):
        worst, common = sorted(late, key=_estimate, reverse=True)[:NAMED], _at_one_apiserver(late, of)
        named = [f"{line.watch.watch if common else of.short(line.name)}: {_figures(line)}" for line in worst]
        figures = named if len(late) > 1 else [_figures(late[0])]
        text = f"{common or f'{_named(late, of)}:'} late{_since(late, of.now_wall)}"
        yield text, "; ".join(figures), late[0].since_wall


def _at_one_apiserver(some: Sequence[WatchCondition], of: Assessment) -> str:
    """Return `apiserver 10.0.0.1: 2 of 3 watches` if several watches are at one apiserver with an address."""
    place, *others = {line.watch.apiserver for line in some}
    if others or place == SERVICE or len(some) == 1:
        return ""
    its = sum(line.watch.apiserver == place for line in of.lines)
    number = "all" if len(some) == its else f"{len(some):,} of"
    return f"apiserver {of.short(place)}: {number} {counted(its, 'watch')}"


def _stalled(of: Assessment) -> Iterator[BadSentence]:
    if stalled := of.of(Condition.STALLED):
        longest = max(line.watch.audit.stalled_for or 0.0 for line in stalled)
        text = f"{_named(stalled, of)}: no events delivered{_since(stalled, of.now_wall)}"
        yield text, f"oldest undelivered event: {duration(longest)} ago", stalled[0].since_wall


def _overloaded(_: Assessment) -> Sentence:
    return "Cannot tell: watchslo itself could not keep up in the last minute.", "see Own lag", None


def _clock_stopped(of: Assessment) -> Sentence:
    """Say since when no clock ticks, or which clock of several does not."""
    if of.lines and not of.measurable:
        return _no_data(of)
    snapshot, stopped = of.snapshot, of.stopped
    failures = (ticker.failure for domain in snapshot.domains if domain.name in stopped for ticker in domain.tickers)
    why = next(filter(None, failures), "")
    if any(why in reason for reason in snapshot.monitor.not_ready):
        why = ""  # it is shown next to the headline already
    age, every = min(stopped.values()), len(stopped) == len(of.clocks)
    unmeasured = sum(line.watch.domain in stopped for line in of.lines)
    subject = "the clock" if every else f"the clock of {counted(unmeasured, 'watch')}"
    if age == float("inf"):
        return f"Cannot tell: {subject} has not ticked yet.", why, None
    began = of.now_wall - age
    reason, _, more = why.partition(". ")  # what the apiserver says comes after it
    if not every or not reason:
        return f"Cannot tell: {subject} has not ticked {since(began, of.now_wall)}.", why, began
    text = f"Cannot tell {since(began, of.now_wall)}: {reason[0].lower()}{reason[1:].rstrip('.')}."
    return text, _both(f"{subject} does not tick", more), began


def _storage_silent(of: Assessment) -> Sentence:
    """Say since when the storage answers no consistent read, and what shows it."""
    age = min(of.stopped.values())
    began = None if age == float("inf") else of.now_wall - age
    evidence = next(cause.evidence for cause in of.snapshot.causes if cause.cause is Cause.STORAGE_SLOW)
    lasts = f" {since(began, of.now_wall)}" if began is not None else ""
    return f"The storage answers no apiserver{lasts}: nothing can be written.", evidence.rstrip("."), began


def _starting(_: Assessment) -> Sentence:
    return "Cannot tell yet: not every watch has been opened, or a clock does not tick.", "", None


def _is_down(line: WatchCondition) -> bool:
    """Return True if the other clients of a closed watch have waited for longer than a healthy one needs to reopen."""
    return (line.watch.down_for or 0.0) >= CLOSED_SECONDS


def _down(of: Assessment) -> Sentence:
    """Say which watches are closed, and which configured resources are not served."""
    missing = of.snapshot.monitor.missing
    absent = f"{counted(len(missing), 'configured resource')} cannot be watched"
    if not of.closed:
        return f"{absent}.", "; ".join(missing[:NAMED]), None
    text, why, began = _closed(of)
    return text, _both(why, absent if missing else ""), began


def _closed(of: Assessment) -> Sentence:
    closed, began = of.closed, of.closed[0].since_wall
    waits = all(line.condition is Condition.CLOSED and of.now_wall - began < CLOSED_SECONDS for line in closed)
    does = "wait to reopen" if waits and not any(map(_is_down, closed)) else "cannot be kept open"
    text = f"{len(closed)} of {counted(len(of.lines), 'watch')} {does}{_since(closed, of.now_wall)}"
    failure, names = closed[0].watch.session.last_failure, some_of([of.short(line.name) for line in closed])
    why = FORBIDDEN_AUDIT if closed[0].watch.up else failure.message if failure else ""
    return text, f"{names}. {why}".rstrip(), began


def _caused(of: Assessment) -> Sentence:
    """Name the first active cause; no watch is late, or not yet."""
    first, *others = of.snapshot.causes
    more = f", and {counted(len(others), 'more cause')}" if others else ""
    if all(cause.cause is Cause.CONTROLLER_SLOW for cause in of.snapshot.causes):
        slow = some_of(sorted(cause.watch or "" for cause in of.snapshot.causes))
        text = f"No watch is proven late, but controllers act late on {slow}."
    elif all(cause.cause in (Cause.CLIENT_CONNECTION, Cause.CLIENT_SLOW) for cause in of.snapshot.causes):
        text = "No watch is proven late, but other clients are behind."
    else:
        text = f"No watch is proven late, but a cause of lateness is active: {first.cause.value}{more}."
    return text, first.evidence.rstrip("."), min(cause.since_wall for cause in of.snapshot.causes)


def _undecided(of: Assessment) -> Sentence:
    """Say which watches are neither proven late nor in time, with the widest bounds."""
    undecided = of.of(Condition.UNDECIDED)
    text = f"No watch is proven late, but {_named(undecided, of)} cannot be judged."
    widest = max(undecided, key=lambda line: line.judged.upper if line.judged else 0.0)
    assert widest.judged is not None
    bounds = f"{percentile(widest.judged.q)} bounds {between(widest.judged)}"
    return text, f"{of.short(widest.name)}: {bounds}, threshold {_threshold(undecided)}", None


def _good(of: Assessment) -> Sentence:
    """Say how many watches the verdict is based on, and which latencies are too short to be measured."""
    text, figures = _connected(of) if of.of(Condition.CONNECTED) else _well(of)
    if aside := len(of.lines) - len(of.measurable):
        figures = _both(figures, f"{counted(aside, 'other watch')} cannot be measured")
    if of.last_bad_wall is not None:
        figures = _both(figures, f"last bad minute {minute_of_day(of.last_bad_wall, of.now_wall)}")
    figures = _both(_both(figures, _slowest(of)), _unusual(of))
    if not (coarse := _coarse(of)):
        return text, figures, None
    about = duration(float(f"{coarse:.0e}"))  # one digit: screen readers announce each change of the headline
    text = f"{text.removesuffix('.')}, but latencies below about {about} cannot be measured now."
    return text, _both(f"ticks take {duration(coarse)}", figures), None


def _slowest(of: Assessment) -> str:
    """Say which apiserver delivers later than another one, if that is much; by the P50 of its watches, half of them."""
    behind: defaultdict[str, list[float]] = defaultdict(list)
    for line in of.lines:
        if line.watch.behind_fastest:
            behind[line.watch.apiserver].append(line.watch.behind_fastest.p50)
    seconds, name = max(((median(found), name) for name, found in behind.items()), default=(0.0, ""))
    return f"{of.short(name)} delivers {duration(seconds)} later than the fastest" if seconds >= MUCH_SECONDS else ""


def _unusual(of: Assessment) -> str:
    """Say which apiserver delivers much later than it usually does; by the P50 of its watches, half of them."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for line in of.of(Condition.WITHIN):
        usual = of.usual.get((line.watch.apiserver, line.watch.watch))
        times[line.watch.apiserver].append(line.p50.estimate / usual if usual and line.p50 else 1.0)
    most, name = max(((median(found), name) for name, found in times.items()), default=(1.0, ""))
    return f"{of.short(apiserver_text(name))} takes {most:.0f} times as long as usual" if most >= UNUSUAL else ""


def _connected(of: Assessment) -> tuple[str, str]:
    """Return what is known without quantiles: which watches are connected, and what was proven in the last hour."""
    connected, hour = len(of.of(Condition.CONNECTED)), of.hour
    text = f"{connected:,} of {counted(len(of.lines), 'watch')} connected, "
    found = [f"{counted(hour.late, 'event')} proven late"] if hour.late else []
    found += [f"{counted(hour.violations, 'violation')} of guarantees"] if hour.violations else []
    return f"{text}{' and '.join(found) or 'nothing proven late or violated'} in the last {hour.span}.", ""


def _well(of: Assessment) -> tuple[str, str]:
    lines = of.measurable
    count = Counter(line.condition for line in lines)
    within, idle = count[Condition.WITHIN], count[Condition.IDLE]
    if not within:
        return _idle(idle, len(lines)), ""
    goal = _threshold(lines)
    if within == len(lines):
        subject = f"{of.short(lines[0].name)} is" if len(lines) == 1 else f"All {counted(within, 'watch')} are"
        return f"{subject} within {goal}.", ""
    rest = [f"{idle:,} idle"] if idle else []
    unknown = len(lines) - within - idle
    rest += [f"{unknown:,} not judged"] if unknown else []
    return "No watch is late.", f"{within:,} within {goal}, {', '.join(rest)}"


def _idle(idle: int, count: int) -> str:
    """Return a sentence for watches that are idle, except those that reopen."""
    if idle == count:
        subject = "The watch is" if count == 1 else f"All {counted(count, 'watch')} are"
        return f"{subject} idle (proven by audits)."
    rest = count - idle
    reopening = f"{rest:,} {'reopens' if rest == 1 else 'reopen'}"
    return f"{idle:,} of {counted(count, 'watch')} are idle (proven by audits), and {reopening}."


def _coarse(of: Assessment) -> float | None:
    """Return how long ticks take if figures of watches within their thresholds are below that, and it matters."""
    judged = [(line.judged, line.watch.track.objective.threshold) for line in of.of(Condition.WITHIN)]
    hidden = [(figure.resolution, threshold) for figure, threshold in judged if figure and not figure.resolved]
    return max((held for held, threshold in hidden if held >= COARSE_SHARE * threshold), default=None)


def _no_data(of: Assessment) -> Sentence:
    if of.lines and not of.measurable:
        return "Cannot tell: nothing that is watched can be measured, because its revisions are no numbers.", "", None
    return "Cannot tell: no watch has had enough measured events lately.", "", None


_SENTENCES: Mapping[OverallVerdict, Callable[[Assessment], Sentence]] = {
    OverallVerdict.PAUSED: _paused,
    OverallVerdict.UNRESPONSIVE: _bad,
    OverallVerdict.MONITOR_PROBLEM: _overloaded,
    OverallVerdict.CLOCK_STOPPED: _clock_stopped,
    OverallVerdict.STORAGE_SILENT: _storage_silent,
    OverallVerdict.STALLED: _bad,
    OverallVerdict.LATE: _bad,
    OverallVerdict.STARTING: _starting,
    OverallVerdict.DOWN: _down,
    OverallVerdict.CAUSE: _caused,
    OverallVerdict.UNDECIDED: _undecided,
    OverallVerdict.GOOD: _good,
    OverallVerdict.NO_DATA: _no_data,
}

# --- parts of sentences -----------------------------------------------------------------------------------------------


def _both(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _named(some: Sequence[WatchCondition], of: Assessment) -> str:
    """Return the names of a few watches, or the number of many."""
    if len(some) <= NAMED:
        return some_of([of.short(line.name) for line in some])
    return f"{len(some):,} of {counted(len(of.lines), 'watch')}"


def _since(some: Sequence[WatchCondition], now_wall: float) -> str:
    """Return since when; if the watches did not begin together, since when the first one."""
    first, *others = (since(line.since_wall, now_wall) for line in some)
    return f", the first {first}" if any(other != first for other in others) else f" {first}"


def _estimate(line: WatchCondition) -> float:
    return line.judged.estimate if line.judged else 0.0


def _figures(line: WatchCondition) -> str:
    judged, events = line.judged, counted(line.window.events, "event")
    if judged is None:
        return f"{counted(line.watch.track.objective.verdicts.get('beyond', 0), 'event')} proven late since the start"
    figure = f"{percentile(judged.q)} {estimate_text(judged)} (bounds {between(judged)})"
    return f"{figure}, threshold {_threshold([line])}, {events}"


def _threshold(lines: Sequence[WatchCondition]) -> str:
    thresholds = {line.watch.track.objective.threshold for line in lines}
    return duration(thresholds.pop()) if len(thresholds) == 1 else "their thresholds"
