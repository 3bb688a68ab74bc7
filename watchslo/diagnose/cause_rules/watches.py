"""Finds watches that pause, that are stuck, or whose headroom is short."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from watchslo.diagnose.evidence import AFTERMATH_SECONDS, FROZEN, STALLED, Evidence, Key, Place, Watch
from watchslo.diagnose.finding import Finding
from watchslo.diagnose.sentences import apiservers_of, seconds
from watchslo.snapshot import Cause, Confidence

EXPIRED = 2  # 410s in a minute; each restart of an apiserver causes one
CATCH_UPS = 3  # in half a minute: a single one follows any interruption


def parked_watch(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """One watch pauses and catches up again and again without being closed, while others of its apiserver are prompt.

    An apiserver treats a watch so that it parks as too slow (KEP-6268), instead of closing it.
    """
    for key in sorted(unexplained):
        watch, apiserver = evidence.watches[key], evidence.apiservers[key[0]]
        others = [other for other in apiserver.watches if other.key != key]
        if watch.catch_ups < CATCH_UPS or watch.place is Place.STORAGE or apiserver.troubled:
            continue
        if any(other.healthy for other in others) and not any(other.catch_ups for other in others):
            sentence = (
                f"{watch.name} at {apiserver.text} paused and caught up {watch.catch_ups} times in "
                f"{AFTERMATH_SECONDS:.0f} s without being closed; other watches there are prompt."
            )
            yield Finding(Cause.PARKED_WATCH, watch.apiserver, watch.name, Confidence.LOW, sentence, frozenset({key}))


def stalled_stream(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """A watch delivers nothing although there are events, or did so until an audit reopened it."""
    stuck: dict[str, list[Watch]] = defaultdict(list)
    for key in sorted(unexplained):
        if evidence.watches[key].stuck or _was_stuck_alone(evidence, key):
            stuck[key[1]].append(evidence.watches[key])
    for name, watches in stuck.items():
        peers_deliver = any(peer.events[0] for watch in watches for peer in evidence.peers(watch))
        if evidence.several_watched and (len(watches) > 1 or not peers_deliver):
            yield _stalled(evidence, None, name, watches)
        else:
            yield from (_stalled(evidence, watch.apiserver, name, [watch]) for watch in watches)


def _was_stuck_alone(evidence: Evidence, key: Key) -> bool:
    """Return whether an audit reopened this watch and no other of its apiserver; several are the apiserver's fault."""
    others = (w for w in evidence.apiservers[key[0]].watches if w.key != key)
    return evidence.watches[key].stalls > 0 and not any(watch.stalls or watch.stuck for watch in others)


def _stalled(evidence: Evidence, apiserver: str | None, name: str, watches: Sequence[Watch]) -> Finding:
    servers = [evidence.apiservers[watch.apiserver] for watch in watches]
    alive = all(not apiserver.troubled and any(watch.events[0] for watch in apiserver.watches) for apiserver in servers)
    proven = apiserver is not None or any(watch.reading.audit.result in (STALLED, FROZEN) for watch in watches)
    still = any(watch.stuck for watch in watches)
    confidence = Confidence.HIGH if still and alive and proven else Confidence.MEDIUM
    held = max(max(w.reading.audit.stalled_for or 0.0, w.reading.cache.behind_peers or 0.0) for w in watches)
    if any(watch.reading.audit.result == FROZEN for watch in watches):
        what = f"is served from a watch cache that has been frozen for {seconds(held)}"
    elif still:
        what = f"has delivered nothing for {seconds(held)}, although there are events"
    else:
        what = "withheld events until an audit found them and reopened the watch"
    rest = "; other watches there are healthy" if alive else ""
    sentence = f"{name} at {apiservers_of(watches)} {what}{rest}."
    return Finding(
        Cause.STALLED_STREAM, apiserver, name, confidence, sentence, frozenset(watch.key for watch in watches)
    )


def headroom_short(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """The headroom is too short. This explains no delay, so other rules still judge these watches."""
    by_name: dict[str, list[Watch]] = defaultdict(list)
    for watch in evidence.watches.values():
        if _lacks_headroom(watch) or watch.expired >= EXPIRED:
            by_name[watch.name].append(watch)
    for name, watches in by_name.items():
        fits = any(peer.reading.headroom and peer.reading.headroom.fits for peer in evidence.peers(watches[0]))
        if evidence.several_watched and not fits:
            yield _short_headroom(None, name, watches)
        else:
            yield from (_short_headroom(watch.apiserver, name, [watch]) for watch in watches)


def _lacks_headroom(watch: Watch) -> bool:
    return watch.reading.headroom is not None and watch.reading.headroom.fits is False


def _short_headroom(apiserver: str | None, name: str, watches: Sequence[Watch]) -> Finding:
    measured = [watch.reading.headroom for watch in watches if watch.reading.headroom and _lacks_headroom(watch)]
    if not measured:
        count = max(watch.expired for watch in watches)
        sentence = f"The watch of {name} received 410 Expired {count} times within a minute."
        return Finding(Cause.HEADROOM_SHORT, apiserver, name, Confidence.MEDIUM, sentence)
    least = min(measured, key=lambda headroom: headroom.seconds.upper)
    confidence = Confidence.HIGH if least.list_measured else Confidence.MEDIUM
    takes = "takes" if least.list_measured else "would take"
    sentence = (
        f"A client of {name} gets a 410 after {seconds(least.seconds.upper)} without a watch, and a full list {takes} "
        f"{seconds(least.list_seconds or 0.0)}."
    )
    return Finding(Cause.HEADROOM_SHORT, apiserver, name, confidence, sentence)
