"""Merges what the instances of a cluster answer: one verdict, one row for each, and what does not fit together. Pure.

An instance that does not answer is never left out: without its answer, there is no good verdict on the cluster.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from watchslo.api.status import LatencyStatus, ObjectiveStatus, StatusDocument, TickerStatus, WatchStatus
from watchslo.model import SERVICE, shard_name
from watchslo.snapshot import WindowVerdict
from watchslo.timeline.condition import placed
from watchslo.timeline.figure import between
from watchslo.timeline.format import NAMED, counted, duration, percentile, some_of
from watchslo.timeline.verdict import Level, level_of

STALE_SECONDS = 60.0  # an instance judges its watches every five seconds; a round of many silent ones takes 50 s
ANSWERED_SECONDS = 30.0  # a tick this recent shows that an apiserver answers, also with rare ticks
MOST_FINDINGS = 5  # of one kind; the number of the others follows
NOT_JUDGED = "It has not judged its watches yet."
WORST_FIRST = (Level.BAD, Level.UNKNOWN, Level.GOOD)

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class InstanceAnswer:
    """The newest status that an instance has sent, None if it never did, and for how many seconds that has been so.

    `failure` says why it does not answer now; None if it does. `address` is its URL.
    """

    address: str
    status: StatusDocument | None = None
    age: float = 0.0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class OverviewFinding:
    """Something that only shows when instances are compared; while a `doubt` lasts, no verdict is good."""

    text: str
    doubt: bool = False


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """What one instance says. `age` is that of its figures in seconds, None if it has never answered."""

    name: str
    address: str
    part: str | None
    level: Level
    text: str
    figures: str
    answers: bool
    age: float | None
    version: str | None
    watches: int | None


@dataclass(frozen=True, slots=True)
class Overview:
    """All instances at one moment: the verdict on the cluster, the findings, and the rows, the worst first."""

    at_wall: float
    cluster: str | None
    level: Level
    text: str
    findings: tuple[OverviewFinding, ...]
    rows: tuple[InstanceRow, ...]

    @property
    def more_findings(self) -> tuple[OverviewFinding, ...]:
        """The findings that the text of the verdict does not have yet."""
        return tuple(finding for finding in self.findings if finding.text not in self.text)


class Fleet:
    """The answers of all instances, and how sentences name them."""

    def __init__(self, answers: Sequence[InstanceAnswer]) -> None:
        self.answers = answers
        self._names = Counter(filter(None, (name for answer in answers for name in (_part(answer), _host(answer)))))

    @cached_property
    def current(self) -> list[tuple[str, StatusDocument]]:
        """The name and status of each instance that answers with figures of now."""
        fresh = [answer for answer in self.answers if answer.failure is None and answer.age <= STALE_SECONDS]
        return [(self.name(answer), answer.status) for answer in fresh if answer.status]

    @cached_property
    def silent(self) -> list[InstanceAnswer]:
        """The instances that do not answer."""
        return [answer for answer in self.answers if answer.failure is not None]

    @cached_property
    def watches(self) -> list[tuple[str, StatusDocument, WatchStatus]]:
        """Each watch with the name and status of its instance."""
        return [(name, status, watch) for name, status in self.current for watch in status.watches]

    @cached_property
    def shard_counts(self) -> dict[int, list[InstanceAnswer]]:
        """The instances by how many shards they are configured for, without those that are no shards."""
        shards = [answer for answer in self.answers if answer.status and answer.status.monitor.shard.count > 1]
        return _grouped((answer.status.monitor.shard.count, answer) for answer in shards if answer.status)

    @cached_property
    def missing_shards(self) -> list[str]:
        """The shards that no instance is known to run; none if the instances disagree about how many there are."""
        if len(self.shard_counts) != 1:
            return []
        ((count, shards),) = self.shard_counts.items()
        known = {answer.status.monitor.shard.index for answer in shards if answer.status}
        return [shard_name(index, count) for index in range(count) if index not in known]

    def name(self, answer: InstanceAnswer) -> str:
        """Return the part of an instance, its host if other instances have that part, or its address."""
        own = (name for name in (_part(answer), _host(answer)) if name and self._names[name] == 1)
        return next(own, answer.address)

    def label(self, answer: InstanceAnswer) -> str:
        """Return the name of an instance with its address, at which a reader looks next."""
        name = self.name(answer)
        return name if name == answer.address else f"{name} ({answer.address})"


def merge(answers: Sequence[InstanceAnswer], obstacles: Sequence[str], at_wall: float) -> Overview:
    """Return all instances as one; `obstacles` are sentences about instances that cannot even be looked for."""
    fleet = Fleet(answers)
    doubts = [OverviewFinding(text, doubt=True) for text in obstacles]
    findings = (*doubts, *(finding for rule in MERGE_RULES for finding in rule(fleet)))
    rows = sorted(map(_row, answers), key=_order)
    level, text = _verdict(rows, [finding.text for finding in findings if finding.doubt])
    clusters = Counter(status.cluster for _, status in fleet.current if status.cluster)
    cluster = clusters.most_common(1)[0][0] if clusters else None
    return Overview(at_wall, cluster, level, text, findings, tuple(rows))


# --- the rows and the verdict -----------------------------------------------------------------------------------------


def _row(answer: InstanceAnswer) -> InstanceRow:
    status = answer.status
    level, text, figures = _said(answer)
    return InstanceRow(
        name=_host(answer) or answer.address,
        address=answer.address,
        part=_part(answer),
        level=level,
        text=text,
        figures=figures,
        answers=answer.failure is None,
        age=answer.age if status else None,
        version=status.monitor.build.version if status else None,
        watches=len(status.watches) if status else None,
    )


def _said(answer: InstanceAnswer) -> tuple[Level, str, str]:
    """Return the level, text and figures of a row; old figures say nothing about now."""
    if answer.failure is not None:
        return Level.UNKNOWN, f"It does not answer: {answer.failure.rstrip('.')}.", ""
    assert answer.status is not None, "an instance without a failure has answered"
    said = answer.status.verdict
    if said is None:
        return Level.UNKNOWN, NOT_JUDGED, ""
    if answer.age > STALE_SECONDS:
        return Level.UNKNOWN, f"Its figures are old. The last verdict was: {said.text}", ""
    return level_of(said.level), said.text, said.figures


def _order(row: InstanceRow) -> tuple[int, int, str, str]:
    """Sort the worst first, then parts by their numbers: `shard 10 of 12` comes after `shard 9 of 12`."""
    part = row.part or ""
    return WORST_FIRST.index(row.level), len(part), part, row.name


def _verdict(rows: Sequence[InstanceRow], doubts: Sequence[str]) -> tuple[Level, str]:
    """Return the worst of what the instances say, and of what prevents a verdict on all of them."""
    late = [_named(row, rows) for row in rows if row.level is Level.BAD]
    current = [row for row in rows if row.answers and (row.age or 0.0) <= STALE_SECONDS]  # else there is a doubt
    unsure = [*doubts, *(_named(row, rows) for row in current if row.level is Level.UNKNOWN)]
    if late:
        return Level.BAD, _first(late) + (f" {_first(unsure)}" if unsure else "")
    if unsure:
        return Level.UNKNOWN, _first(unsure)
    if not rows:
        return Level.UNKNOWN, "Cannot tell: no instance is known."
    if len(rows) == 1:
        return rows[0].level, rows[0].text
    watches = counted(sum(row.watches or 0 for row in rows), "watch")
    return Level.GOOD, f"No watch is late: all {len(rows)} instances say so, about {watches}."


def _named(row: InstanceRow, rows: Sequence[InstanceRow]) -> str:
    text = row.text.rstrip(".")
    return f"{text}." if len(rows) == 1 else f"{row.part or row.name}: {text}."


def _first(sentences: Sequence[str]) -> str:
    """Return a few sentences, and the number of the others, which are in the table or the findings."""
    more = len(sentences) - NAMED
    return " ".join([*sentences[:NAMED], *([f"And {more} more."] if more > 0 else [])])


# --- the findings -----------------------------------------------------------------------------------------------------


def silent_instances(fleet: Fleet) -> Iterator[OverviewFinding]:
    """Instances do not answer; if they never did, they are probably the missing shards."""
    nameless = [answer for answer in fleet.silent if answer.status is None]
    known = [answer for answer in fleet.silent if answer.status is not None]
    for why, some in _grouped((f"{answer.failure}", answer) for answer in known).items():
        yield _doubt(some_of([fleet.label(answer) for answer in some]), why)
    for why, some in _grouped((f"{answer.failure}", answer) for answer in nameless).items():
        missing = some_of(fleet.missing_shards) if fleet.missing_shards else ""
        yield _doubt(f"{missing} ({_addresses(some)})" if missing else _addresses(some), why)
    if fleet.missing_shards and not nameless:
        yield _doubt(some_of(fleet.missing_shards), "no instance is known that runs these watches")


def old_figures(fleet: Fleet) -> Iterator[OverviewFinding]:
    """Instances answer, but do not judge their watches any more."""
    for answer in fleet.answers:
        if answer.failure is None and answer.age > STALE_SECONDS:
            yield _doubt(fleet.name(answer), f"its figures are {duration(answer.age)} old")


def different_shard_counts(fleet: Fleet) -> Iterator[OverviewFinding]:
    """Instances are configured for different numbers of shards."""
    if len(fleet.shard_counts) > 1:
        listed = _listed(
            (str(count), [_place(answer) for answer in some]) for count, some in fleet.shard_counts.items()
        )
        yield OverviewFinding(f"shard.count differs, so watches may run twice or nowhere: {listed}.", doubt=True)


def shards_twice(fleet: Fleet) -> Iterator[OverviewFinding]:
    """Several instances run the same watches."""
    shards = ((part, answer) for some in fleet.shard_counts.values() for answer in some if (part := _part(answer)))
    for part, some in _grouped(shards).items():
        if len(some) > 1:
            places = some_of([_place(answer) for answer in some])
            yield OverviewFinding(f"{len(some)} instances run {part}: {places}; give each its own shard.index.")


def opposite_verdicts(fleet: Fleet) -> Iterator[OverviewFinding]:
    """The same watch at the same apiserver is late for one instance, and in time for another one."""
    watches = _grouped(
        (
            (watch.watch, watch.apiserver, watch.resource, watch.group, _aim(watch.latency.objective)),
            (name, watch.latency),
        )
        for name, status, watch in fleet.watches
        if status.monitor.instance.node is None  # each node has objects of its own
    )
    found = [
        f"{placed(watch, apiserver)}: {disagreement}."
        for (watch, apiserver, *_), judged in watches.items()
        if (disagreement := _disagreement(judged))
    ]
    yield from _limited(found)


def _disagreement(judged: Sequence[tuple[str, LatencyStatus]]) -> str:
    """Return the latest and the most timely verdict with their bounds; empty unless the verdicts are opposite."""
    with_bounds = [(name, latency.verdict, latency.decisive) for name, latency in judged if latency.decisive]
    late = [(name, bounds) for name, verdict, bounds in with_bounds if verdict == WindowVerdict.BAD]
    good = [(name, bounds) for name, verdict, bounds in with_bounds if verdict == WindowVerdict.GOOD]
    if not (late and good):
        return ""
    worst, best = max(late, key=lambda pair: pair[1].lower), min(good, key=lambda pair: pair[1].lower)
    (late_name, slow), (good_name, fast) = worst, best
    return (
        f"late for {late_name} ({percentile(slow.q)} {between(slow)}), "
        f"in time for {good_name} ({between(fast)}); compare their ways to the apiserver"
    )


def unequal_apiservers(fleet: Fleet) -> Iterator[OverviewFinding]:
    """An apiserver answers the ticks of one instance, and not those of another one."""
    tickers = _grouped(
        (ticker.apiserver, (name, ticker))
        for name, status in fleet.current
        for domain in status.domains
        for ticker in domain.tickers
        if ticker.apiserver != SERVICE  # it may be another apiserver for each instance
    )
    found = []
    for apiserver, some in tickers.items():
        failing = {name: ticker.failure for name, ticker in some if ticker.failure}
        answering = {name: None for name, ticker in some if _answers(ticker) and name not in failing}
        if failing and answering:
            why = next(iter(failing.values()))
            found.append(
                f"{apiserver} answers {some_of([*answering])}, but not {some_of([*failing])}: {why.rstrip('.')}."
            )
    yield from _limited(found)


def _answers(ticker: TickerStatus) -> bool:
    return not ticker.failure and ticker.answered_ago is not None and ticker.answered_ago <= ANSWERED_SECONDS


def different_objectives(fleet: Fleet) -> Iterator[OverviewFinding]:
    """The same watch has different objectives."""
    watches = _grouped(
        ((watch.watch, watch.resource, watch.group), (_aim(watch.latency.objective), name))
        for name, _, watch in fleet.watches
    )
    found = []
    for (watch, *_), stated in watches.items():
        objectives = _grouped(dict.fromkeys(stated))
        if len(objectives) > 1:
            found.append(f"{watch} has different objectives: {_listed((_goal(*o), n) for o, n in objectives.items())}.")
    yield from _limited(found)


def different_clusters(fleet: Fleet) -> Iterator[OverviewFinding]:
    """The instances name the cluster differently."""
    names = _grouped((status.cluster, name) for name, status in fleet.current if status.cluster)
    if len(names) > 1:
        listed = _listed(names.items())
        yield OverviewFinding(
            f"The cluster has different names: {listed}; check that these instances measure the same."
        )


def different_versions(fleet: Fleet) -> Iterator[OverviewFinding]:
    """The instances run different versions."""
    versions = _grouped((status.monitor.build.version, name) for name, status in fleet.current)
    if len(versions) > 1:
        yield OverviewFinding(f"The versions differ: {_listed(versions.items())}.")


MergeRule = Callable[[Fleet], Iterator[OverviewFinding]]
MERGE_RULES: tuple[MergeRule, ...] = (
    silent_instances,
    old_figures,
    different_shard_counts,
    shards_twice,
    opposite_verdicts,
    unequal_apiservers,
    different_objectives,
    different_clusters,
    different_versions,
)
"""Each rule finds one kind of problem; the gravest comes first."""


# --- texts ------------------------------------------------------------------------------------------------------------


def _doubt(about: str, why: str) -> OverviewFinding:
    return OverviewFinding(f"Cannot tell for {about}: {why.rstrip('.')}.", doubt=True)


def _limited(found: Sequence[str]) -> Iterator[OverviewFinding]:
    for text in found[:MOST_FINDINGS]:
        yield OverviewFinding(text)
    if len(found) > MOST_FINDINGS:
        yield OverviewFinding(f"… and {len(found) - MOST_FINDINGS} more of this kind.")


def _listed(groups: Iterable[tuple[str, Sequence[str]]]) -> str:
    """Return `A for a and b, B for c`."""
    return ", ".join(f"{value} for {some_of(names)}" for value, names in groups)


def _aim(objective: ObjectiveStatus) -> tuple[float, float, float]:
    """Return what decides whether a watch is late."""
    return objective.quantile, objective.window, objective.threshold


def _goal(quantile: float, window: float, threshold: float) -> str:
    return f"{percentile(quantile)} of {duration(window)} within {duration(threshold)}"


def _addresses(answers: Sequence[InstanceAnswer]) -> str:
    return some_of([answer.address for answer in answers])


def _part(answer: InstanceAnswer) -> str | None:
    return answer.status.monitor.instance.part if answer.status else None


def _host(answer: InstanceAnswer) -> str:
    return answer.status.monitor.instance.host if answer.status else ""


def _place(answer: InstanceAnswer) -> str:
    return _host(answer) or answer.address


def _grouped(pairs: Iterable[tuple[_K, _T]]) -> dict[_K, list[_T]]:
    found: dict[_K, list[_T]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return dict(found)
