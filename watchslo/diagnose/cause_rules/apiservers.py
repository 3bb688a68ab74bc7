"""Finds delays of one apiserver: between storage and its watch caches, or between these and its clients."""

from collections.abc import Collection, Iterator

from watchslo.diagnose.cause_rules.conditions import (
    SHORT_EVENTS,
    SHORT_SHARE,
    all_dead,
    any_late,
    is_far,
    is_prompt,
    is_silent_on_watches,
    keys_of,
    others_are_prompt,
    ticked_apiservers,
)
from watchslo.diagnose.evidence import FROZEN, Evidence, Key, Place, Watch
from watchslo.diagnose.finding import CauseRule, Finding
from watchslo.diagnose.scopes import scopes
from watchslo.diagnose.sentences import others_of, silence_of, ticks_of, worst_of
from watchslo.snapshot import Cause, Confidence


def apiserver_cut_off(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """An apiserver answers only requests that need no storage; or all its watch caches are frozen."""
    for apiserver in evidence.apiservers.values():
        keys = keys_of(apiserver, unexplained)
        behind = [
            watch for watch in apiserver.watches if watch.place is Place.STORAGE or watch.reading.audit.result == FROZEN
        ]
        silent = apiserver.silent and not apiserver.dead
        if not evidence.several_ticked or not keys or not (silent or (is_silent_on_watches(apiserver) and behind)):
            continue
        confidence = Confidence.MEDIUM
        if silent and apiserver.cache_answers and behind and others_are_prompt(evidence, apiserver):
            confidence = Confidence.HIGH
        what = f"has answered no consistent read {silence_of(apiserver)}" if silent else "has frozen watch caches"
        late = f", and its caches are out of date: {worst_of(behind)}" if any_late(behind) else ""
        sentence = f"{apiserver.first_text} {what}{late}."
        yield Finding(Cause.CACHE_BEHIND, apiserver.name, None, confidence, sentence, keys)


def apiserver_gone(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """An apiserver does not answer at all; or it answers, but its watches deliver nothing."""
    if all_dead(evidence):
        return  # the network path that they share is more likely: see `network.bandwidth`
    for apiserver in evidence.apiservers.values():
        keys = keys_of(apiserver, unexplained)
        if apiserver.dead:
            confidence = Confidence.HIGH if evidence.several_ticked and apiserver.unanswered else Confidence.MEDIUM
            others = "; the other apiservers answer" if evidence.several_ticked else ""
            sentence = f"{apiserver.first_text} has answered no request at all {silence_of(apiserver)}{others}."
            yield Finding(Cause.APISERVER_SENDING, apiserver.name, None, confidence, sentence, keys)
        elif is_silent_on_watches(apiserver) and keys and not apiserver.silent:
            late = f", {worst_of(apiserver.watches)}" if any_late(apiserver.watches) else ""
            sentence = f"{apiserver.first_text} answers requests, but none of its watches delivers events{late}."
            yield Finding(Cause.APISERVER_SENDING, apiserver.name, None, Confidence.MEDIUM, sentence, keys)


def slow_ticks(cause: Cause, confidence: Confidence, *, cache_slow: bool | None, caches: str) -> CauseRule:
    """Return a rule for an apiserver whose ticks are slow, while no watch is late: a client that reads waits there.

    `cache_slow` says how reads of its caches must be, and `caches` is that as text for the evidence.
    """

    def cause_rule(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
        for apiserver in evidence.apiservers.values():
            is_alone = not evidence.several_ticked or others_are_prompt(evidence, apiserver)
            if is_far(evidence, apiserver):
                continue  # see `network.slow_path`
            if not (
                apiserver.slow and apiserver.cache_slow is cache_slow and is_alone and is_prompt(apiserver, unexplained)
            ):
                continue
            ticks = ticks_of(ticked_apiservers(evidence))
            sentence = f"Consistent reads are slow through {apiserver.text}, {caches}; {ticks}."
            certain = confidence if evidence.several_ticked else Confidence.LOW
            yield Finding(cause, apiserver.name, None, certain, sentence)

    return cause_rule


def cache_behind(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """The watch cache of one apiserver is behind, of all its watches or of one."""
    for scope in scopes(evidence, unexplained):
        several = evidence.several_watched if scope.watch else evidence.several_ticked
        if scope.apiserver is None or scope.place is not Place.STORAGE or not several:
            continue
        apiserver = evidence.apiservers[scope.apiserver]
        confidence = Confidence.MEDIUM
        if apiserver.slow and not apiserver.erratic and scope.watch is None and others_are_prompt(evidence, apiserver):
            confidence = Confidence.HIGH
        sentence = (
            f"The watch cache of {apiserver.text} is behind storage: {worst_of(scope.watches)}"
            f"{others_of(evidence, scope.watches)}; {ticks_of(ticked_apiservers(evidence))}."
        )
        yield Finding(Cause.CACHE_BEHIND, scope.apiserver, scope.watch, confidence, sentence, scope.keys)


def apiserver_sending(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """The watch cache is current, but the apiserver sends late: all its watches, or one."""
    for scope in scopes(evidence, unexplained):
        if scope.apiserver is None or scope.place is not Place.CLIENT or (scope.watch and not evidence.several_watched):
            continue
        apiserver = evidence.apiservers[scope.apiserver]
        confidence = Confidence.MEDIUM
        if (
            apiserver.slow
            and not apiserver.erratic
            and scope.watch is None
            and others_are_prompt(evidence, apiserver)
            and evidence.several_watched
            and all(_flows(evidence, watch) for watch in scope.watches)
        ):
            confidence = Confidence.HIGH
        late = worst_of(scope.watches)
        is_all_late = apiserver.cache_slow
        what = f"answers everything late: {late}" if is_all_late else f"sends {late}, although its cache is current"
        others, ticks = others_of(evidence, scope.watches), ticks_of(ticked_apiservers(evidence))
        sentence = f"{apiserver.first_text} {what}{others}; {ticks}."
        yield Finding(Cause.APISERVER_SENDING, scope.apiserver, scope.watch, confidence, sentence, scope.keys)


def _flows(evidence: Evidence, watch: Watch) -> bool:
    """Return whether the watch receives about as many events as its peers, or these receive too few to compare."""
    most = max((peer.events[0] for peer in evidence.peers(watch)), default=0)
    return most < SHORT_EVENTS or watch.events[0] > SHORT_SHARE * most
