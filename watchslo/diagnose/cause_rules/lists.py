"""Finds load by lists: from outside, or by what the apiserver itself counts."""

from collections.abc import Collection, Iterator

from watchslo.diagnose.cause_rules.conditions import keys_of, receives_fewer
from watchslo.diagnose.evidence import ApiserverEvidence, Evidence, Key
from watchslo.diagnose.finding import Finding
from watchslo.diagnose.own_figures import lists_heavily
from watchslo.diagnose.sentences import seconds, worst_of
from watchslo.snapshot import Cause, Confidence

REFUSALS = 3  # a single 429 comes from a cache that is not ready
SCATTERED_SHARE = 0.5  # of the watches that are late or have some late events


def relist_storm(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """From outside, a relist storm looks like load: 429s, or delays that differ from event to event."""
    refusing = [apiserver for apiserver in evidence.apiservers.values() if apiserver.refusals >= REFUSALS]
    loaded = [apiserver for apiserver in evidence.apiservers.values() if _is_loaded(evidence, apiserver, unexplained)]
    busy = {apiserver.name: apiserver for apiserver in (*refusing, *loaded)}
    if not busy:
        return
    if refusing:
        facts = [
            f"{apiserver.first_text} refused {apiserver.refusals} requests of watchslo with 429"
            for apiserver in refusing
        ]
    else:
        spans = (f"{seconds(o.low or 0.0)} to {seconds(o.high or 0.0)} ({o.text})" for o in loaded)
        facts = [f"Delays vary widely: ticks take {', '.join(spans)}"]
    keys = frozenset[Key]().union(*(keys_of(apiserver, unexplained) for apiserver in busy.values()))
    late = [watch for key, watch in evidence.watches.items() if key in keys and watch.late]
    sentence = "; ".join([*facts, *([worst_of(late)] if late else [])]) + "."
    name = next(iter(busy)) if len(busy) == 1 else None
    yield Finding(Cause.RELIST_STORM, name, None, Confidence.MEDIUM, sentence, keys)


def _is_loaded(evidence: Evidence, apiserver: ApiserverEvidence, unexplained: Collection[Key]) -> bool:
    """Return whether ticks and watches are late by widely different times.

    Work that waits for a CPU is delayed like that; a slow network path delays everything alike.
    """
    touched = [w for w in apiserver.watches if w.key in unexplained and not w.stuck and (w.late or w.scattered)]
    scattered = sum(watch.scattered for watch in touched)
    return (
        (apiserver.slow or apiserver.erratic)
        and len(touched) > 1
        and any(watch.late for watch in touched)
        and scattered >= SCATTERED_SHARE * len(touched)
        and not any(receives_fewer(evidence, watch) for watch in touched)
    )


def listing(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """No other cause fits, and the apiserver itself counts lists of many objects, or refuses requests."""
    for apiserver in evidence.apiservers.values():
        keys = keys_of(apiserver, unexplained)
        late = [watch for key, watch in evidence.watches.items() if key in keys and watch.late]
        if late and apiserver.own is not None and lists_heavily(apiserver.own):
            sentence = f"{apiserver.first_text} is busy with lists: {worst_of(late)}."
            yield Finding(Cause.RELIST_STORM, apiserver.name, None, Confidence.LOW, sentence, keys)
