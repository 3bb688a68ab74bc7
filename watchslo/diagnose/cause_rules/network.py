"""Finds delays of the network: too little bandwidth, or a slow way."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from watchslo.diagnose.cause_rules.conditions import (
    all_dead,
    is_far,
    is_prompt,
    keys_of,
    receives_fewer,
    ticked_apiservers,
)
from watchslo.diagnose.evidence import MOST_SHARE, ApiserverEvidence, Evidence, Key, Place, Watch
from watchslo.diagnose.finding import Finding
from watchslo.diagnose.scopes import scopes
from watchslo.diagnose.sentences import names_of, seconds, ticks_of, worst_of
from watchslo.snapshot import Cause, Confidence

FLAT_SHARE = 1.25  # between the most and the fewest bytes of three steps
FLAT_BYTES = 1000  # in a step; less does not fill any link
STEP_SECONDS = 5.0  # between two snapshots


def bandwidth(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """Fewer events get through than there are, or the connection itself is as slow as its watch."""
    if all_dead(evidence):
        sentence = f"None of the {len(evidence.apiservers)} apiservers answers."
        yield Finding(Cause.BANDWIDTH, None, None, Confidence.MEDIUM, sentence, frozenset(unexplained))
        return
    for scope in scopes(evidence, unexplained):
        if scope.apiserver is None and scope.watch is None and scope.place is Place.CLIENT:
            sentence = f"At every apiserver, watches are late after the watch cache: {worst_of(scope.watches)}."
            yield Finding(Cause.BANDWIDTH, None, None, Confidence.MEDIUM, sentence, scope.keys)
            return
    for apiserver in evidence.apiservers.values():
        yield from _bandwidth_of(evidence, apiserver, unexplained)


def _bandwidth_of(evidence: Evidence, apiserver: ApiserverEvidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    late = [
        w for w in apiserver.watches if w.key in unexplained and w.late and not w.stuck and w.place is not Place.STORAGE
    ]
    short = [watch for watch in late if receives_fewer(evidence, watch)]
    lagging = [watch for watch in late if watch.grows and _is_flat(watch)]
    far = [
        w
        for w in late
        if w.reading.session.transport and w.reading.session.transport.round_trip >= MOST_SHARE * (w.lateness or 0.0)
    ]
    dropped = [watch for watch in apiserver.watches if watch.slow_consumer and late]
    if short:
        worst = min(short, key=lambda watch: watch.events[0])
        peer = max(other.events[0] for other in evidence.peers(worst))
        sentence = (
            f"{apiserver.first_text} sent {worst.events[0]} events of {worst.name}, while another apiserver sent {peer}"
        )
    elif lagging:
        sentence = f"The delay of {lagging[0].name} at {apiserver.text} grows, at a steady {_rate(lagging[0])}"
    elif far:
        sentence = f"The TCP round trip to {apiserver.text} takes {seconds(_slowest_trip(far))}"
    elif dropped:
        names = names_of(watch.name for watch in dropped)
        sentence = f"{apiserver.first_text} closed watches because it could not send their events fast enough ({names})"
    else:
        return
    is_flat = short and any(_is_flat(watch) for watch in short) and not apiserver.erratic
    confidence = Confidence.HIGH if is_flat else Confidence.MEDIUM
    delay = f"; {worst_of(late)}" if late else ""
    yield Finding(
        Cause.BANDWIDTH, apiserver.name, None, confidence, f"{sentence}{delay}.", keys_of(apiserver, unexplained)
    )


def _rate(watch: Watch) -> str:
    """Return the bytes per second of the last step, as text."""
    return f"{watch.bytes[0] / STEP_SECONDS:,.0f} bytes/s"


def _slowest_trip(watches: Iterable[Watch]) -> float:
    return max(watch.reading.session.transport.round_trip for watch in watches if watch.reading.session.transport)


def _is_flat(watch: Watch) -> bool:
    """Return whether the last three steps brought about as many bytes each: the link, not the load, sets the rate."""
    sizes = watch.bytes[:3]
    return min(sizes) >= FLAT_BYTES and max(sizes) <= FLAT_SHARE * min(sizes)


def slow_path(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """Everything that one apiserver sends is late alike, and no faster apiserver excludes the network between."""
    late: dict[str, list[Watch]] = defaultdict(list)
    for scope in scopes(evidence, unexplained):
        if scope.apiserver is not None and scope.place is Place.CLIENT:
            late[scope.apiserver] += scope.watches
    for apiserver in evidence.apiservers.values():
        watches = late[apiserver.name]
        is_slow_only = apiserver.slow and not evidence.several_ticked and is_prompt(apiserver, unexplained)
        if is_far(evidence, apiserver) and (watches or is_slow_only):
            late_watches, ticks = f"; {worst_of(watches)}" if watches else "", ticks_of(ticked_apiservers(evidence))
            sentence = (
                f"The network to {apiserver.text} is slow, or {apiserver.text} itself: all that it sends is late by "
                f"about the same time{late_watches}; {ticks}."
            )
            keys = frozenset(watch.key for watch in watches)
            yield Finding(Cause.BANDWIDTH, apiserver.name, None, Confidence.LOW, sentence, keys)
