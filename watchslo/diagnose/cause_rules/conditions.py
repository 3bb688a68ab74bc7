"""Conditions that several rules share."""

from collections.abc import Collection, Iterable

from watchslo.diagnose.evidence import MOST_SHARE, ApiserverEvidence, Evidence, Key, Watch

SHORT_SHARE = 0.75  # of the events that a peer receives in the same step: a watch that is only late receives as many
SHORT_BEFORE_SHARE = 0.95  # in the step before: a plain delay also brings fewer events in its first step
SHORT_EVENTS = 20  # of the peer in a step; fewer differ by chance


def ticked_apiservers(evidence: Evidence) -> list[ApiserverEvidence]:
    """Return the apiservers with enough ticks to judge them, or with none answered."""
    return [apiserver for apiserver in evidence.ticked if apiserver.tick is not None or apiserver.silent]


def others_are_prompt(evidence: Evidence, apiserver: ApiserverEvidence) -> bool:
    """Return whether there are other apiservers, and all of them answer ticks promptly."""
    others = [other for other in ticked_apiservers(evidence) if other is not apiserver]
    return bool(others) and not any(other.troubled for other in others)


def keys_of(apiserver: ApiserverEvidence, unexplained: Collection[Key]) -> frozenset[Key]:
    """Return its watches that no rule has explained yet."""
    return frozenset(watch.key for watch in apiserver.watches if watch.key in unexplained)


def any_late(watches: Iterable[Watch]) -> bool:
    """Return whether some of these watches are late."""
    return any(watch.late for watch in watches)


def is_server_in_time(evidence: Evidence, resources: Collection[str]) -> bool:
    """Return whether ticks are prompt, and no watch of these resources is late or stuck at any apiserver."""
    if any(apiserver.troubled for apiserver in ticked_apiservers(evidence)):
        return False
    return not any(watch.resource in resources and (watch.late or watch.stuck) for watch in evidence.watches.values())


def is_prompt(apiserver: ApiserverEvidence, unexplained: Collection[Key]) -> bool:
    """Return whether it has watches, and none of them is late, stuck or explained by another cause."""
    watches = apiserver.watches
    return bool(watches) and not any(watch.late or watch.stuck or watch.key not in unexplained for watch in watches)


def is_silent_on_watches(apiserver: ApiserverEvidence) -> bool:
    """Return whether several of its watches are stuck, and none delivers an event."""
    stuck = sum(watch.stuck for watch in apiserver.watches)
    return stuck > 1 and not any(watch.events[0] for watch in apiserver.watches)


def all_dead(evidence: Evidence) -> bool:
    """Return whether there are several apiservers, and none of them answers."""
    return evidence.several_ticked and all(apiserver.dead for apiserver in evidence.ticked)


def is_far(evidence: Evidence, apiserver: ApiserverEvidence) -> bool:
    """Return whether ticks take as long as slow reads of caches, steadily, and no other apiserver answers sooner."""
    tick, read = apiserver.tick, apiserver.cache_trip
    if tick is None or read is None or not apiserver.cache_slow or apiserver.erratic:
        return False
    others = [other.tick for other in ticked_apiservers(evidence) if other is not apiserver and other.tick is not None]
    return tick >= MOST_SHARE * read and all(other >= MOST_SHARE * tick for other in others)


def receives_fewer(evidence: Evidence, watch: Watch) -> bool:
    """Return whether the watch received some events, but clearly fewer than a peer, in each of the last two steps."""
    peers = [peer.events for peer in evidence.peers(watch) if len(peer.events) > 1]
    if not peers or len(watch.events) < 2:  # noqa: PLR2004 - two steps
        return False
    most = [max(events[step] for events in peers) for step in (0, 1)]
    return (
        min(most) >= SHORT_EVENTS
        and 0 < watch.events[0] <= SHORT_SHARE * most[0]
        and 0 < watch.events[1] <= SHORT_BEFORE_SHARE * most[1]
    )
