"""Finds delays of the storage: for all that read it, for one that polls it, or only for events."""

from collections.abc import Collection, Iterator

from watchslo.diagnose.cause_rules.conditions import is_silent_on_watches, keys_of, ticked_apiservers
from watchslo.diagnose.evidence import FROZEN, Evidence, Key, Place
from watchslo.diagnose.finding import Finding
from watchslo.diagnose.scopes import scopes
from watchslo.diagnose.sentences import ticks_of, worst_of
from watchslo.snapshot import Cause, Confidence


def storage_slow(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """Ticks, which bypass all caches, are slow through every apiserver, while reads of the caches are prompt."""
    ticked = ticked_apiservers(evidence)
    places = [watch.place for watch in evidence.watches.values()]
    to_storage, to_client = places.count(Place.STORAGE), places.count(Place.CLIENT)
    if (
        not ticked
        or not all(apiserver.troubled for apiserver in ticked)
        or all(apiserver.dead for apiserver in ticked)
        or to_client > to_storage
    ):
        return
    if not to_storage and any(apiserver.cache_slow for apiserver in ticked):
        return  # reads that need no storage are slow too
    shown = to_storage > 0 or any(
        apiserver.cache_slow is False or (apiserver.silent and apiserver.cache_answers) for apiserver in ticked
    )
    if evidence.several_ticked:
        confidence = (
            Confidence.HIGH if shown and not any(apiserver.erratic for apiserver in ticked) else Confidence.MEDIUM
        )
    else:
        confidence = Confidence.MEDIUM if shown else Confidence.LOW
    where = "every apiserver" if evidence.several_ticked else ticked[0].text
    caches = ", while reads of watch caches are prompt" if shown else ""
    sentence = f"Consistent reads are slow through {where}{caches}; {ticks_of(ticked)}."
    yield Finding(Cause.STORAGE_SLOW, None, None, confidence, sentence, frozenset(evidence.watches))


def storage_poller(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """With kine, the poll of an apiserver stands still, or the events of other servers wait long for it."""
    for apiserver in evidence.apiservers.values():
        if apiserver.kine and not apiserver.troubled and is_silent_on_watches(apiserver):
            frozen = any(watch.reading.audit.result == FROZEN for watch in apiserver.watches)
            confidence = Confidence.HIGH if frozen else Confidence.MEDIUM
            sentence = (
                f"{apiserver.first_text} delivers no event of any resource, although its consistent reads are prompt."
            )
            yield Finding(
                Cause.STORAGE_POLLER, apiserver.name, None, confidence, sentence, keys_of(apiserver, unexplained)
            )
            continue
        waiting = [w for w in apiserver.watches if w.key in unexplained and w.late and w.place is not Place.CLIENT]
        if apiserver.polls and waiting:
            sentence = (
                f"{apiserver.first_text} finds changes of other servers by a poll of its storage: {worst_of(waiting)}."
            )
            keys = frozenset(watch.key for watch in waiting)
            yield Finding(Cause.STORAGE_POLLER, apiserver.name, None, Confidence.MEDIUM, sentence, keys)


def storage_late(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """Ticks are prompt, but the events of every watch come late from storage."""
    for scope in scopes(evidence, unexplained):
        of_all = scope.watch is None and (scope.apiserver is None or not evidence.several_watched)
        if of_all and scope.place is Place.STORAGE:
            ticks = ticks_of(ticked_apiservers(evidence))
            sentence = f"Events reach every watch cache late: {worst_of(scope.watches)}; {ticks}."
            yield Finding(Cause.STORAGE_SLOW, None, None, Confidence.MEDIUM, sentence, scope.keys)
