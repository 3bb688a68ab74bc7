"""Finds delays without a known cause."""

from collections.abc import Collection, Iterator

from watchslo.diagnose.cause_rules.conditions import ticked_apiservers
from watchslo.diagnose.evidence import Evidence, Key, Place
from watchslo.diagnose.finding import Finding
from watchslo.diagnose.scopes import scopes
from watchslo.diagnose.sentences import apiservers_of, ticks_of, worst_of
from watchslo.snapshot import Cause, Confidence

UNKNOWN_SHARE = 0.2  # of the threshold: a shorter delay without a known cause is not reported


def not_compared(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """One resource is late on a known hop, and no other one shows whether that is the fault of this resource."""
    for scope in scopes(evidence, unexplained):
        if scope.watch is None or scope.place is None:
            continue
        hop = "before the watch cache" if scope.place is Place.STORAGE else "after the watch cache"
        where = "all apiservers" if evidence.several_watched else "the apiserver"
        sentence = (
            f"{worst_of(scope.watches)} at {where}, {hop}; no other watched resource shows whether only "
            f"{scope.watch} is late; {ticks_of(ticked_apiservers(evidence))}."
        )
        yield Finding(Cause.UNKNOWN, scope.apiserver, scope.watch, Confidence.LOW, sentence, scope.keys)


def unknown(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """Watches are late, and no other rule explains them."""
    late = [
        watch
        for key, watch in evidence.watches.items()
        if key in unexplained and watch.lateness and watch.lateness >= UNKNOWN_SHARE * watch.threshold
    ]
    if late:
        where = apiservers_of(late)
        sentence = f"{worst_of(late)} at {where}; no known cause fits; {ticks_of(ticked_apiservers(evidence))}."
        yield Finding(Cause.UNKNOWN, None, None, Confidence.LOW, sentence, frozenset(watch.key for watch in late))
