"""Which list strategy informers should use, by what rehearsals of each have shown, and how long they may be away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from watchslo.history.words import counted, duration
from watchslo.monitor.rehearsal import Headroom, Rehearsal
from watchslo.watch import strategy
from watchslo.watch.strategy import PAGE_SIZE

LONG_SECONDS = 30.0  # of a list: apiservers try to keep 75 s of changes (k8s.io/apiserver, DefaultEventFreshDuration)
INFORMERS = tuple(made.name for made in (strategy.STREAM, strategy.PAGED, strategy.PARALLEL, strategy.CACHE))
"""Those by which all objects become known, the best first."""
STREAM, PAGED, PARALLEL, CACHE = INFORMERS


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of one strategy with one resource, and the one that stands for them: the median of those synced."""

    strategy: str
    runs: tuple[Rehearsal, ...]

    @property
    def typical(self) -> Rehearsal:
        times = [run.synced for run in self.runs if run.synced is not None]
        if not times:
            return self.runs[-1]
        return next(run for run in self.runs if run.synced == median_low(times))

    @property
    def synced(self) -> int:
        return sum(run.synced is not None for run in self.runs)

    @property
    def expired(self) -> int:
        return sum(run.expired for run in self.runs)

    @property
    def throttled(self) -> int:
        return sum(run.throttled for run in self.runs)

    @property
    def fell_back(self) -> bool:
        return any(run.fell_back for run in self.runs)

    @property
    def holds(self) -> bool:
        """Whether each run was synced by this very strategy, without a 410."""
        return not self.expired and all(run.synced is not None and run.by == self.strategy for run in self.runs)


@dataclass(frozen=True, slots=True)
class Advice:
    """What informers should use, or None where nothing of what was rehearsed is fit for them; and why, for people."""

    strategy: str | None
    reason: str


def outcomes(runs: Sequence[Rehearsal]) -> dict[str, Outcome]:
    """The runs of one resource by strategy, in the order in which they were first rehearsed."""
    names = dict.fromkeys(run.strategy for run in runs)
    return {name: Outcome(name, tuple(run for run in runs if run.strategy == name)) for name in names}


def advise(found: Mapping[str, Outcome]) -> Advice:
    """The best strategy that holds; `parallel` goes before a `paged` whose list takes long."""
    sound = [name for name in INFORMERS if name in found and found[name].holds]
    if not sound:
        return Advice(None, _why_none(found))
    chosen = sound[0]
    if chosen == PAGED and PARALLEL in sound and _seconds(found[PAGED]) > LONG_SECONDS:
        chosen = PARALLEL
    sentences = [_WHY[chosen](found)]
    if 0 < found[chosen].typical.objects <= PAGE_SIZE:
        sentences.append("With so few objects all of them cost about the same.")
    return Advice(chosen, " ".join([*sentences, *_remarks(found)]))


def remembers(headroom: Headroom, found: Mapping[str, Outcome]) -> str:
    """How long an informer may be away before it gets 410, and what that means for lists in pages.

    Those need their first page's revision at the end; what holds for them holds for whoever resumes a watch.
    """
    revisions = counted(headroom.revisions, "revision")
    if headroom.complete:
        return (
            f"The apiserver dropped no change meanwhile: it remembers {_reach(headroom)} ({revisions}), and ever more."
        )
    if headroom.about is None:
        return f"The apiserver remembers {_reach(headroom)} ({revisions})."
    away = f"A client that is away for more than about {duration(headroom.about)} ({revisions}) gets 410"
    longest = _longest_list(found)
    if longest is None:
        return f"{away}."
    if longest >= headroom.about:
        return f"{away}. The longest list took {duration(longest)}: a watch that opens after it is too late."
    return f"{away}. The longest list took {duration(longest)}, {_share(longest / headroom.about)} of that."


def _reach(headroom: Headroom) -> str:
    if headroom.about is None:
        return f"at least {duration(headroom.seconds.lower)}"
    return f"about {duration(headroom.about)}"


def _share(ratio: float) -> str:
    return f"{ratio:.0%}" if ratio >= 0.01 else "less than 1%"  # noqa: PLR2004 - of a percent nobody needs parts


def _longest_list(found: Mapping[str, Outcome]) -> float | None:
    """Seconds until the slowest start of an informer was synced; None where none ever was."""
    times = (run.synced for name in INFORMERS if name in found for run in found[name].runs)
    return max((synced for synced in times if synced is not None), default=None)


def _why_stream(found: Mapping[str, Outcome]) -> str:
    stream = found[STREAM]
    return (
        f"One watch brought {_objects(stream)} in {_took(stream)} and goes on from there: no revision can expire in "
        f"between{_paged_instead(found)}."
    )


def _why_paged(found: Mapping[str, Outcome]) -> str:
    paged = found[PAGED]
    return (
        f"{_objects(paged).capitalize()} came in {_pages(paged)} in {_took(paged)}, and the watch could start from the "
        f"list's revision{_every_time(paged)}{_without_stream(found)}."
    )


def _why_parallel(found: Mapping[str, Outcome]) -> str:
    parallel = found[PARALLEL]
    if PAGED in found and found[PAGED].holds:
        against = (
            f"paged holds its revision for {_took(found[PAGED])}, and apiservers try to keep changes for 75 s only"
        )
    else:
        against = "its watch opens at the first page, before the revision can expire" + _paged_instead(found)
    return (
        f"{_objects(parallel).capitalize()} came in {_pages(parallel)} in {_took(parallel)}, and {against}"
        f"{_without_stream(found)}."
    )


def _why_cache(found: Mapping[str, Outcome]) -> str:
    others = ", ".join(name for name in INFORMERS if name in found and not found[name].holds)
    against = f"It is the only one that held ({others} did not)" if others else "It held"
    return (
        f"{against}: {_objects(found[CACHE])} came at once in {_took(found[CACHE])}. But the cache of an apiserver may "
        "answer from the past, above all where there are several of them."
    )


_WHY = {STREAM: _why_stream, PAGED: _why_paged, PARALLEL: _why_parallel, CACHE: _why_cache}


def _why_none(found: Mapping[str, Outcome]) -> str:
    if not any(name in found for name in INFORMERS):
        return "tail knows no objects: it is for those who need only changes, as watchslo itself does."
    return " ".join(["By no strategy was each start synced without a 410.", *_remarks(found)])


def failing(outcome: Outcome) -> str:
    """What of a strategy did not hold."""
    if outcome.fell_back:
        return "fell back to pages, as the apiserver streams no lists"
    if outcome.expired:
        return _expiry(outcome)
    failures = [run.failure for run in outcome.runs if run.failure]
    return failures[-1].message.rstrip(".") if failures else f"{outcome.typical.by} had to stand in"


def _expiry(outcome: Outcome) -> str:
    lists = sum(run.expired_lists for run in outcome.runs)
    what = "410 while it was listed" if lists else "410 when the watch should start"
    count = sum(run.expired > 0 for run in outcome.runs)
    return what if len(outcome.runs) == 1 else f"{what} in {_runs(count, outcome)}"


def _paged_instead(found: Mapping[str, Outcome]) -> str:
    paged = found.get(PAGED)
    if paged is None:
        return ""
    return f" (paged: {f'{_pages(paged)}, {_took(paged)}' if paged.holds else failing(paged)})"


def _without_stream(found: Mapping[str, Outcome]) -> str:
    if STREAM not in found:
        return ""
    return f" (stream: {failing(found[STREAM])})"


def _remarks(found: Mapping[str, Outcome]) -> list[str]:
    throttled = sum(outcome.throttled for outcome in found.values())
    if not throttled:
        return []
    times = "once" if throttled == 1 else f"{throttled:,} times"
    return [f"The apiserver answered 429 {times}: it was busy, or its cache not ready; rehearse again later."]


def _seconds(outcome: Outcome) -> float:
    synced = outcome.typical.synced
    assert synced is not None
    return synced


def _took(outcome: Outcome) -> str:
    return duration(_seconds(outcome))


def _objects(outcome: Outcome) -> str:
    return counted(outcome.typical.objects, "object")


def _pages(outcome: Outcome) -> str:
    return counted(outcome.typical.pages, "page")


def _every_time(outcome: Outcome) -> str:
    return f" in {_runs(outcome.synced, outcome)}" if len(outcome.runs) > 1 else ""


def _runs(count: int, outcome: Outcome) -> str:
    return f"{count} of {counted(len(outcome.runs), 'run')}"
