"""What the apiservers' own metrics say of a cause that was found from outside: they confirm or contradict it.

Figures that confirm raise the confidence by one level, those that contradict lower it by one. They count once they
cover a time in which the cause was already found: those of the time before say nothing. Behind an address of several
processes, figures are of one of them and say nothing either.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from watchslo.changes import quantile
from watchslo.diagnose.evidence import Evidence, Watch
from watchslo.diagnose.memory import SLOW_SECONDS
from watchslo.diagnose.sentences import names_of, seconds
from watchslo.snapshot import ApiserverFigures, Cause, Confidence, HistogramReading, ResourceFigures

LEAST = 5  # observations: fewer say nothing
PROMPT_SECONDS = 0.025  # P90 of requests to a healthy etcd, with room
SLOW_WEBHOOK_SECONDS = 0.3  # P90 of calls: as slow as a write path that is named
LISTING_RATE = 10_000.0  # objects a second by lists: a large part of a core for encoding them
QUIET_RATE = 500.0  # below it, lists are no load
DISPATCH_SHARE = 0.5  # of a delay that the dispatch takes if it is the reason
PROMPT_DISPATCH_SHARE = 0.1  # of a delay that it takes at most if it is not
BY_OWN = "By the apiserver's own metrics"
TOTAL = "total"  # the stage of kube-apiserver that covers all others


class Weight(Enum):
    """What figures say of a cause."""

    CONFIRM = "confirm"
    CONTRADICT = "contradict"


@dataclass(frozen=True, slots=True)
class OwnEvidence:
    """What apiservers' own figures say of a cause, in a sentence; they cover the time since `since_wall`.

    If they confirm it, its confidence rises by one level, to `most` at most.
    """

    weight: Weight
    sentence: str
    most: Confidence
    since_wall: float


@dataclass(frozen=True, slots=True)
class _Verdict:
    weight: Weight
    sentence: str
    most: Confidence = Confidence.HIGH


def own_evidence(evidence: Evidence, cause: Cause, apiserver: str | None, watch: str | None) -> OwnEvidence | None:
    """Return what the apiservers that a cause names say of it, all if it names none; None if they say nothing."""
    named = [candidate for candidate in evidence.apiservers.values() if apiserver in (None, candidate.name)]
    own = {candidate.name: candidate.own for candidate in named if candidate.own is not None}
    rule = _OWN_FIGURE_RULES.get(cause)
    if rule is None or not own:
        return None
    watches = tuple(
        candidate for apiserver_ in named for candidate in apiserver_.watches if watch in (None, candidate.name)
    )
    found = rule(_Case(own, watches, is_compared=evidence.several_ticked))
    if found is None:
        return None
    return OwnEvidence(found.weight, found.sentence, found.most, max(figures.since_wall for figures in own.values()))


def lists_heavily(own: ApiserverFigures) -> bool:
    """Return whether an apiserver sends many objects by lists, or refuses requests."""
    return own.rejected > 0 or (own.listed is not None and own.listed / own.seconds >= LISTING_RATE)


@dataclass(frozen=True, slots=True)
class _Case:
    """The figures by apiserver, and the watches, that a cause is about.

    `is_compared` says that there are other apiservers to compare with.
    """

    own: Mapping[str, ApiserverFigures]
    watches: tuple[Watch, ...]
    is_compared: bool

    @property
    def is_loaded(self) -> bool:
        """Whether lists keep an apiserver so busy that it finds everything slow, etcd as well."""
        return any(map(lists_heavily, self.own.values()))

    def resources(self) -> Iterator[tuple[Watch, ResourceFigures]]:
        """Yield each watch with the figures of its resource."""
        for watch in self.watches:
            figures = self.own.get(watch.apiserver)
            if figures and (of_resource := figures.resources.get(watch.resource)):
                yield watch, of_resource


def _storage(case: _Case) -> _Verdict | None:
    """Slow requests to etcd, at each of the apiservers; or prompt ones at all of them."""
    etcd = _enough([figures.etcd for figures in case.own.values()])
    if len(etcd) < len(case.own):
        return None
    if not case.is_loaded and all(quantile(histogram, 0.5) >= SLOW_SECONDS for histogram in etcd):
        most = Confidence.HIGH if case.is_compared else Confidence.MEDIUM  # else it may be the link to etcd
        return _Verdict(Weight.CONFIRM, f"{BY_OWN}, requests to etcd take {_p50(etcd)} (P50).", most)
    if all(quantile(histogram, 0.9) <= PROMPT_SECONDS for histogram in etcd):
        return _Verdict(Weight.CONTRADICT, f"{BY_OWN}, requests to etcd take only {_p90(etcd)} (P90).")
    return None


def _cache(case: _Case) -> _Verdict | None:
    """As for the storage; or consistent reads that wait for the watch cache."""
    waits = _enough([figures.read_wait for figures in case.own.values()])
    if waits and not case.is_loaded and all(quantile(histogram, 0.5) >= SLOW_SECONDS for histogram in waits):
        most = Confidence.HIGH if case.is_compared else Confidence.MEDIUM
        return _Verdict(Weight.CONFIRM, f"{BY_OWN}, reads wait {_p50(waits)} for the watch cache (P50).", most)
    return _storage(case)


def _dispatch(case: _Case) -> _Verdict | None:
    """Events that take long, or not, from etcd to the watch within the apiserver; since 1.37."""
    known = [
        (watch.lateness, quantile(figures.dispatch[TOTAL], 0.9))
        for watch, figures in case.resources()
        if watch.lateness and TOTAL in figures.dispatch and figures.dispatch[TOTAL].total >= LEAST
    ]
    if not known:
        return None
    late, took = max(known)
    if took >= DISPATCH_SHARE * late:
        return _Verdict(Weight.CONFIRM, f"{BY_OWN}, the dispatch of events takes {seconds(took)} (P90).")
    if took <= PROMPT_DISPATCH_SHARE * late:
        sentence = (
            f"{BY_OWN}, the dispatch of events takes only {seconds(took)} (P90): the rest is encoding or sending."
        )
        return _Verdict(Weight.CONTRADICT, sentence)
    return None


def _fanout(case: _Case) -> _Verdict | None:
    """Watches that were closed or parked as too slow delay the dispatch to all others of the resource."""
    return _slow_clients(case) or _dispatch(case)


def _bandwidth(case: _Case) -> _Verdict | None:
    """The apiserver closed watches that did not take their events; or it dispatches them promptly, or not."""
    slow, dispatch = _slow_clients(case), _dispatch(case)
    if slow or dispatch is None:
        return slow
    if dispatch.weight is Weight.CONFIRM:
        return replace(dispatch, weight=Weight.CONTRADICT)
    return replace(dispatch, weight=Weight.CONFIRM, most=Confidence.MEDIUM)  # encoding may be slow as well


def _slow_clients(case: _Case) -> _Verdict | None:
    slow = [(watch.name, figures) for watch, figures in case.resources() if figures.terminated or figures.parked]
    if not slow:
        return None
    closed, parked = sum(figures.terminated for _, figures in slow), sum(figures.parked for _, figures in slow)
    texts = [*([f"{closed:,} watches were closed"] if closed else []), *([f"{parked:,} are parked"] if parked else [])]
    names = names_of(name for name, _ in slow)
    return _Verdict(Weight.CONFIRM, f"{BY_OWN}, clients of {names} do not take events in time: {' and '.join(texts)}.")


def _lists(case: _Case) -> _Verdict | None:
    """Lists of many objects, and requests that are refused or wait."""
    queued = sum(figures.queued or 0 for figures in case.own.values())
    rates = [figures.listed / figures.seconds for figures in case.own.values() if figures.listed is not None]
    most = max(rates, default=None)
    if any(map(lists_heavily, case.own.values())):
        rejected = sum(figures.rejected for figures in case.own.values())
        listed = "" if most is None else f"lists send {most:,.0f} objects a second"
        refused = f"{rejected:,} requests were refused" if rejected else ""
        return _Verdict(Weight.CONFIRM, f"{BY_OWN}, {' and '.join(filter(None, (listed, refused)))}.")
    if most is not None and most <= QUIET_RATE and not queued:
        return _Verdict(Weight.CONTRADICT, f"{BY_OWN}, lists send few objects: {most:,.0f} a second.")
    return None


def _stalled(case: _Case) -> _Verdict | None:
    """The apiserver parks watches, or the cache received what a watch did not deliver, or it stands still."""
    known = [(figures, watch.name) for watch, figures in case.resources() if watch.stuck]
    figures, name = max(
        known, key=lambda resource: (resource[0].parked, resource[0].received), default=(ResourceFigures(), "")
    )
    if figures.parked:
        return _Verdict(Weight.CONFIRM, f"{BY_OWN}, {figures.parked:,} watches of {name} are parked.")
    if figures.received:
        sentence = f"{BY_OWN}, the watch cache of {name} received {figures.received:,} events."
        return _Verdict(Weight.CONFIRM, sentence)
    if figures.advanced == 0:
        return _Verdict(Weight.CONFIRM, f"{BY_OWN}, the watch cache of {name} stands still.")
    return None


def _conversion(case: _Case) -> _Verdict | None:
    """Slow conversion webhooks, for custom resources only."""
    if not any("." in watch.reading.group for watch in case.watches):
        return None
    return _webhooks((figures.conversion for figures in case.own.values()), SLOW_SECONDS, "conversion webhooks")


def _admission(case: _Case) -> _Verdict | None:
    """Slow validating webhooks or slow writes to etcd: both are after the creation timestamp."""
    own = case.own.values()
    called = _webhooks((figures.admission for figures in own), SLOW_WEBHOOK_SECONDS, "validating webhooks")
    return called or _webhooks((figures.etcd for figures in own), SLOW_WEBHOOK_SECONDS, "requests to etcd")


def _webhooks(calls: Iterable[HistogramReading | None], slow: float, name: str) -> _Verdict | None:
    took = max((quantile(histogram, 0.9) for histogram in _enough(calls)), default=0.0)
    return _Verdict(Weight.CONFIRM, f"{BY_OWN}, {name} take {seconds(took)} (P90).") if took >= slow else None


def _enough(histograms: Iterable[HistogramReading | None]) -> list[HistogramReading]:
    """Return those with enough observations."""
    return [histogram for histogram in histograms if histogram is not None and histogram.total >= LEAST]


def _p50(histograms: Iterable[HistogramReading]) -> str:
    return seconds(min(quantile(histogram, 0.5) for histogram in histograms))


def _p90(histograms: Iterable[HistogramReading]) -> str:
    return seconds(max(quantile(histogram, 0.9) for histogram in histograms))


_OWN_FIGURE_RULES: Mapping[Cause, Callable[[_Case], _Verdict | None]] = {
    Cause.STORAGE_SLOW: _storage,
    Cause.CACHE_BEHIND: _cache,
    Cause.APISERVER_SENDING: _dispatch,
    Cause.RESOURCE_FANOUT: _fanout,
    Cause.PARKED_WATCH: _slow_clients,
    Cause.BANDWIDTH: _bandwidth,
    Cause.RELIST_STORM: _lists,
    Cause.STALLED_STREAM: _stalled,
    Cause.RESOURCE_DECODING: _conversion,
    Cause.WRITE_PATH: _admission,
}
"""What is asked of the figures for each cause; of the others, an apiserver counts nothing that decides."""
