"""What is remembered of the last minute, and the evidence that it gives of each apiserver."""

import math
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from watchslo.changes import increases, middle, observations_since, quantile
from watchslo.diagnose.evidence import MOST_SHARE, SPAN_SECONDS, ApiserverEvidence, Evidence, Key, Watch
from watchslo.diagnose.watch_evidence import STEPS, Step, step_of, watch_evidence
from watchslo.snapshot import (
    ApiserverReading,
    ApiserverRole,
    DomainReading,
    HistogramReading,
    Snapshot,
    StorageKind,
    TickerReading,
)

MEMORY_SECONDS = 60.0
TICKS = 3  # fewer have no useful median
TICK_GAPS = 8  # for rare ticks: their median covers so many mean gaps
SLOW_SECONDS = 0.075  # of a tick, in addition to the network's own round trip
SLOW_FACTOR = 4.0  # times the best round trip of that apiserver
SILENT_SECONDS = 6.0  # with up to four apiservers, each is ticked more often than that, even if ticks fail
SILENT_GAPS = 2.5  # for rare ticks: unless one fails, two ticks through an apiserver are at most 1.4 mean gaps apart
DENIALS = ("401", "403")


@dataclass(frozen=True, slots=True)
class Moment:
    """What is remembered of a snapshot, and its time in monotonic seconds.

    `domains` has the domain with most watches first.
    """

    now: float
    tainted_seconds: float
    apiservers: Sequence[ApiserverReading]
    domains: Sequence[DomainReading]
    steps: Mapping[Key, Step]


class Memory:
    """Keeps what the rules need of the last minute, and the best round trip of each apiserver since it is there."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []
        self._best: dict[str, float] = {}

    def add(self, now: float, snapshot: Snapshot) -> Generator[None, None, None]:
        """Add a snapshot, and pause after each watch; after a pause of the process, earlier ones are out of date."""
        steps: dict[Key, Step] = {}
        for watch in snapshot.watches:
            steps[watch.apiserver, watch.watch] = step_of(watch)
            yield
        if self._moments and now - self._moments[-1].now > SPAN_SECONDS:
            self._moments = []
        self._moments = [moment for moment in self._moments if moment.now >= now - MEMORY_SECONDS]
        watches = Counter(watch.domain for watch in snapshot.watches)
        domains = sorted(snapshot.domains, key=lambda domain: -watches[domain.name])
        tainted = snapshot.monitor.tainted_seconds
        self._moments.append(Moment(now, tainted, snapshot.apiservers, domains, steps))
        present = {apiserver.name for apiserver in snapshot.apiservers}
        self._best = {name: best for name, best in self._best.items() if name in present}

    def evidence(self, snapshot: Snapshot) -> Generator[None, None, Evidence | None]:
        """Return the evidence, or None while there is only one moment; pause after each watch.

        `snapshot` is the last one that was added.
        """
        if len(self._moments) == 1:
            return None
        newest = self._moments[-1]
        base = self._since(SPAN_SECONDS)
        watched = {reading.name for reading in snapshot.apiservers if reading.watched}
        round_trips = {domain.name: domain.resolution or 0.0 for domain in snapshot.domains}
        polling = {ticker.apiserver for domain in snapshot.domains for ticker in domain.tickers if ticker.polls}
        watches: dict[Key, Watch] = {}
        by_name: defaultdict[str, list[Watch]] = defaultdict(list)
        by_apiserver: defaultdict[str, list[Watch]] = defaultdict(list)
        for reading in snapshot.watches:
            if reading.apiserver in watched:  # else the service, if each apiserver is watched individually
                key = reading.apiserver, reading.watch
                past = [(moment.now, moment.steps[key]) for moment in self._moments if key in moment.steps]
                round_trip, polls = round_trips.get(reading.domain, 0.0), reading.apiserver in polling
                watch = watches[key] = watch_evidence(reading, past, base.now, round_trip, polls=polls)
                by_name[watch.name].append(watch)
                by_apiserver[watch.apiserver].append(watch)
            yield
        of_all = {
            reading.name: self._apiserver(reading, base, by_apiserver[reading.name])
            for reading in snapshot.apiservers
            if reading.role is not ApiserverRole.SERVICE
        }
        apiservers = {name: apiserver for name, apiserver in of_all.items() if name in watched}
        witnesses = {
            name: apiserver for name, apiserver in of_all.items() if name not in watched and self._testifies(apiserver)
        }
        tainted = newest.tainted_seconds - base.tainted_seconds
        share = tainted / (newest.now - base.now)
        return Evidence(share, apiservers, witnesses, watches, by_name, snapshot.reactions, snapshot.clients)

    def _since(self, seconds: float) -> Moment:
        """Return the first moment of the last seconds."""
        return next(moment for moment in self._moments if moment.now >= self._moments[-1].now - seconds)

    def _testifies(self, witness: ApiserverEvidence) -> bool:
        """Return whether a witness answers ticks of the storage that is watched."""
        ticker = _ticker(self._moments[-1], witness.name)
        return ticker is not None and ticker.confirmed and witness.tick is not None and not witness.silent

    def _apiserver(self, reading: ApiserverReading, base: Moment, watches: Sequence[Watch]) -> ApiserverEvidence:
        *_, before, last = self._moments
        ticker = _ticker(last, reading.name)
        gap = ticker.gap if ticker else 0.0
        since = self._since(max(SPAN_SECONDS, TICK_GAPS * gap))
        trips, spread = (_round_trips(moment, ticker) for moment in (since, self._moments[-STEPS:][0]))
        tick = middle(trips) if trips else None
        low, high = (quantile(spread, q) if spread else None for q in (0.1, 0.9))
        silent_for = _silent_for(ticker)
        longest = max(SILENT_SECONDS, SILENT_GAPS * gap)
        recent, spanned = (increases(_requests(moment, reading.name), reading.requests) for moment in (before, base))
        reads = [watch.reading.cache.round_trip for watch in watches if watch.reading.cache.round_trip is not None]
        return ApiserverEvidence(
            name=reading.name,
            tick=tick,
            low=low,
            high=high,
            slow=tick is not None and self._is_slow(reading.name, tick, watches),
            silent_for=silent_for,
            silent=silent_for > longest and not (ticker and ticker.unusable) and not _is_refused(spanned),
            answers=sum(count for (_, code), count in recent.items() if code.isdigit()),
            cache_answers=recent.get(("probe_cache", "200"), 0),
            unanswered=sum(count for (_, code), count in spanned.items() if not code.isdigit()),
            refusals=sum(count for (_, code), count in spanned.items() if code == "429")
            - (reading.not_ready - _not_ready(base, reading.name)),
            cache_trip=median(reads) if reads else None,
            kine=any(_is_kine(domain, reading.name) for domain in last.domains),
            polls=ticker is not None and ticker.polls,
            watches=tuple(watches),
            own=reading.own_metrics.recent if reading.own_metrics and reading.own_metrics.processes == 1 else None,
        )

    def _is_slow(self, name: str, tick: float, watches: Iterable[Watch]) -> bool:
        """Return whether ticks are slower than the network, and than they were before or than those of another one.

        An apiserver is compared with others only if the network's own share of its ticks is known, and small.
        """
        best = self._best[name] = min(tick, self._best.get(name, math.inf))
        known = [watch.reading.session.transport.round_trip for watch in watches if watch.reading.session.transport]
        rest = tick - min(known, default=0.0)
        if known and rest >= MOST_SHARE * tick:
            best = min(self._best.values())
        return rest >= SLOW_SECONDS and (tick >= SLOW_FACTOR * best or tick >= 2 * SLOW_FACTOR * SLOW_SECONDS)


def _ticker(moment: Moment, apiserver: str) -> TickerReading | None:
    """Return the apiserver's ticker in the domain with most watches.

    Smaller domains may tick on the very caches that are judged.
    """
    for domain in moment.domains:
        for ticker in domain.tickers:
            if ticker.apiserver == apiserver:
                return ticker
    return None


def _is_kine(domain: DomainReading, apiserver: str) -> bool:
    return domain.kind is StorageKind.KINE and any(ticker.apiserver == apiserver for ticker in domain.tickers)


def _round_trips(since: Moment, ticker: TickerReading | None) -> HistogramReading | None:
    """Return the round trips of ticks answered since that snapshot, or None with too few."""
    if ticker is None:
        return None
    before = _ticker(since, ticker.apiserver)
    recent = observations_since(before.round_trips if before else None, ticker.round_trips)
    return recent if recent.total >= TICKS else None


def _silent_for(ticker: TickerReading | None) -> float:
    """Return the seconds since the last answer to a tick; 0 before the first tick, infinite if none succeeded."""
    if ticker is None:
        return 0.0
    if ticker.answered_ago is None:
        return math.inf if ticker.failure else 0.0
    return ticker.answered_ago


def _is_refused(requests: Mapping[tuple[str, str], int]) -> bool:
    """Return whether the apiserver answers ticks by refusals, so that few are sent: then it is not silent.

    It refuses them for missing rights or credentials, or only for now (429).
    """
    failed = {code for (kind, code), count in requests.items() if kind == "tick" and count and code != "200"}
    return failed == {"429"} or not failed.isdisjoint(DENIALS)


def _not_ready(moment: Moment, apiserver: str) -> int:
    return next((reading.not_ready for reading in moment.apiservers if reading.name == apiserver), 0)


def _requests(moment: Moment, apiserver: str) -> Mapping[tuple[str, str], int]:
    return next((reading.requests for reading in moment.apiservers if reading.name == apiserver), {})
