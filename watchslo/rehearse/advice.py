"""Recommends a list strategy for informers from the results of rehearsals, and explains their headroom."""

from collections.abc import Mapping
from dataclasses import dataclass

from watchslo.rehearse.headroom import Headroom
from watchslo.rehearse.options import may_starve
from watchslo.rehearse.outcome import Outcome, failing, runs_of, seconds, took
from watchslo.timeline.format import counted, duration
from watchslo.watch import strategy
from watchslo.watch.strategy import PAGE_SIZE

LONG_SECONDS = 30.0  # for a list: apiservers aim to keep 75 s of changes (k8s.io/apiserver, DefaultEventFreshDuration)
INFORMERS = tuple(made.name for made in (strategy.STREAM, strategy.PAGED, strategy.PARALLEL, strategy.CACHE))
"""The strategies that list all objects, the best first."""
STREAM, PAGED, PARALLEL, CACHE = INFORMERS


@dataclass(frozen=True, slots=True)
class Advice:
    """The strategy that informers should use, or None if no rehearsed one is suitable; `reason` is for people."""

    strategy: str | None
    reason: str


def advise(found: Mapping[str, Outcome]) -> Advice:
    """Return the best strategy that holds; `parallel` is preferred to a `paged` that takes over `LONG_SECONDS`."""
    sound = [name for name in INFORMERS if name in found and found[name].holds]
    if not sound:
        return Advice(None, _why_none(found))
    chosen = sound[0]
    if chosen == PAGED and PARALLEL in sound and seconds(found[PAGED]) > LONG_SECONDS:
        chosen = PARALLEL
    sentences = [_WHY[chosen](found)]
    if 0 < found[chosen].typical.objects <= PAGE_SIZE:
        sentences.append("With so few objects, all strategies cost about the same.")
    return Advice(chosen, " ".join([*sentences, *_remarks(found)]))


def headroom_sentence(headroom: Headroom, found: Mapping[str, Outcome]) -> str:
    """Say how long an informer may be disconnected before it gets a 410, compared with the longest list.

    A list in pages needs the revision of its first page at its end, as a client does that resumes a watch.
    """
    revisions = "" if headroom.revisions is None else f" ({counted(headroom.revisions, 'revision')})"
    if headroom.complete:
        return (
            f"The headroom is {_reach(headroom)}{revisions} and still grows: the apiserver dropped no change during "
            "the rehearsals."
        )
    if headroom.about is None:
        reach, most = headroom.seconds.lower, "at most "
        away = f"The headroom is {_reach(headroom)}{revisions}: it reaches back to before the rehearsals"
    else:
        reach, most = headroom.about, ""
        away = f"A client that is disconnected for more than {_reach(headroom)}{revisions} gets a 410"
    longest = _longest_list(found)
    if longest is None:
        return f"{away}."
    if longest >= reach:
        gets = "may get" if most else "gets"
        return f"{away}. The longest list took {duration(longest)}: a watch that opens after it {gets} a 410."
    return f"{away}. The longest list took {duration(longest)}, {most}{_share(longest / reach)} of that."


def _reach(headroom: Headroom) -> str:
    if headroom.about is None:
        return f"at least {duration(headroom.seconds.lower)}"
    return f"about {duration(headroom.about)}"


def _share(ratio: float) -> str:
    return f"{ratio:.0%}" if ratio >= 0.01 else "less than 1%"  # noqa: PLR2004 - parts of a percent do not matter


def _longest_list(found: Mapping[str, Outcome]) -> float | None:
    """Return the seconds until the slowest run of an informer was synced, or None if none was."""
    times = (run.synced for name in INFORMERS if name in found for run in found[name].runs)
    return max((synced for synced in times if synced is not None), default=None)


def _why_stream(found: Mapping[str, Outcome]) -> str:
    stream = found[STREAM]
    return (
        f"One watch brought {_objects(stream)} in {took(stream)} and continues from there: no revision can expire in "
        f"between{_paged_instead(found)}."
    )


def _why_paged(found: Mapping[str, Outcome]) -> str:
    paged = found[PAGED]
    return (
        f"{_objects(paged).capitalize()} came in {_pages(paged)} in {took(paged)}, and the watch could start from the "
        f"list's revision{_every_time(paged)}{_without_stream(found)}."
    )


def _why_parallel(found: Mapping[str, Outcome]) -> str:
    parallel = found[PARALLEL]
    if PAGED in found and found[PAGED].holds:
        against = (
            f"paged needs its revision for {took(found[PAGED])}, while apiservers aim to keep only 75 s of changes"
        )
    else:
        against = "its watch opens at the first page, before the revision can expire" + _paged_instead(found)
    return (
        f"{_objects(parallel).capitalize()} came in {_pages(parallel)} in {took(parallel)}, and {against}"
        f"{_without_stream(found)}."
    )


def _why_cache(found: Mapping[str, Outcome]) -> str:
    others = ", ".join(name for name in INFORMERS if name in found and not found[name].holds)
    against = f"Only this strategy worked ({others} did not)" if others else "This strategy worked"
    return (
        f"{against}: {_objects(found[CACHE])} came in one answer in {took(found[CACHE])}. But the cache of an "
        "apiserver may be out of date, especially if there are several apiservers."
    )


_WHY = {STREAM: _why_stream, PAGED: _why_paged, PARALLEL: _why_parallel, CACHE: _why_cache}


def _why_none(found: Mapping[str, Outcome]) -> str:
    if not any(name in found for name in INFORMERS):
        return "tail lists no objects: it is for clients that need only changes, as watchslo itself does."
    return " ".join(["No strategy synced in each run without a 410.", *_remarks(found)])


def _paged_instead(found: Mapping[str, Outcome]) -> str:
    paged = found.get(PAGED)
    if paged is None:
        return ""
    return f" (paged: {f'{_pages(paged)}, {took(paged)}' if paged.holds else failing(paged)})"


def _without_stream(found: Mapping[str, Outcome]) -> str:
    if STREAM not in found:
        return ""
    return f" (stream: {failing(found[STREAM])})"


def _remarks(found: Mapping[str, Outcome]) -> list[str]:
    remarks = []
    throttled = sum(outcome.throttled for outcome in found.values())
    if throttled:
        times = "once" if throttled == 1 else f"{throttled:,} times"
        remarks.append(
            f"The apiserver answered 429 {times}: it was busy, or its cache was not ready. Rehearse again later."
        )
    if any(may_starve([outcome.strategy], outcome.typical.objects) for outcome in found.values()):
        remarks.append(
            "While the watch cache collects so many objects for a streamed list, it takes in no changes: start such "
            "informers one after the other (github.com/kubernetes/kubernetes/issues/139526 measured 472 ms for 50 "
            "of them and 500,000 pods)."
        )
    return remarks


def _objects(outcome: Outcome) -> str:
    return counted(outcome.typical.objects, "object")


def _pages(outcome: Outcome) -> str:
    return counted(outcome.typical.pages, "page")


def _every_time(outcome: Outcome) -> str:
    return f" in {runs_of(outcome.synced, outcome)}" if len(outcome.runs) > 1 else ""
