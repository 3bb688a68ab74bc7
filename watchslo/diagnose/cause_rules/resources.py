"""Finds delays of one resource: before or after the watch caches, of its whole objects, or of its writes."""

from collections.abc import Collection, Iterator, Sequence

from watchslo.diagnose.cause_rules.conditions import any_late, ticked_apiservers
from watchslo.diagnose.evidence import ApiserverEvidence, Evidence, Key, Place, Watch
from watchslo.diagnose.finding import CauseRule, Finding
from watchslo.diagnose.scopes import scopes
from watchslo.diagnose.sentences import apiservers_of, names_of, seconds, ticks_of, worst_of
from watchslo.snapshot import Cause, Confidence

WRITE_SECONDS = 0.3  # creationTimestamp has whole seconds: a shorter median cannot be distinguished from 0
CERTAIN_WRITE_SECONDS = 0.6  # for high confidence
WRITE_EVENTS = 15  # fewer creations say too little about their median


def of_one_resource(cause: Cause, place: Place, hop: str) -> CauseRule:
    """Return a rule for a delay of one resource at all apiservers.

    `hop` is the text for the place in the evidence.
    """

    def cause_rule(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
        for scope in scopes(evidence, unexplained):
            of_one = scope.watch is not None and (scope.apiserver is None or not evidence.several_watched)
            if not of_one or scope.place is not place:
                continue
            others = [_any_healthy(evidence.apiservers[watch.apiserver]) for watch in scope.watches]
            if not any(others):
                continue  # see `unknown.not_compared`
            alone = all(others)
            prompt = not any(apiserver.troubled for apiserver in ticked_apiservers(evidence))
            confidence = Confidence.HIGH if evidence.several_watched and alone and prompt else Confidence.MEDIUM
            where = "all apiservers" if evidence.several_watched else "the apiserver"
            rest = "; other resources are healthy" if alone else ""
            sentence = f"{worst_of(scope.watches)} at {where}, {hop}{rest}; {ticks_of(ticked_apiservers(evidence))}."
            yield Finding(cause, scope.apiserver, scope.watch, confidence, sentence, scope.keys)

    return cause_rule


def _any_healthy(apiserver: ApiserverEvidence) -> bool:
    return any(watch.healthy for watch in apiserver.watches)


def whole_objects_late(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """Only whole objects are late. The watch itself is not, so this explains no delay of it."""
    for name, watches in evidence.by_name.items():
        late = [watch for watch in watches if watch.whole_late is not None]
        everywhere = len(late) == sum(watch.reading.reference is not None for watch in watches)
        if late and evidence.several_watched and everywhere:
            yield _whole_objects(None, name, late)
        else:
            yield from (_whole_objects(watch.apiserver, name, [watch]) for watch in late)


def _whole_objects(apiserver: str | None, name: str, late: Sequence[Watch]) -> Finding:
    worst = max((watch.whole_late for watch in late if watch.whole_late), key=lambda figure: figure.seconds)
    by = "at least" if worst.q == 1.0 else f"P{worst.q * 100:.0f}"
    where = apiservers_of(late)
    sentence = f"Whole objects of {name} at {where} arrive {seconds(worst.seconds)} later than their events ({by})."
    return Finding(Cause.RESOURCE_FANOUT, apiserver, name, Confidence.MEDIUM, sentence)


def write_path(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """Objects are committed long after their creationTimestamp."""
    known: dict[str, Watch] = {}
    for key in sorted(unexplained):
        watch = evidence.watches[key]
        if watch.creation and watch.creation.events >= max(WRITE_EVENTS, _creations(known.get(watch.name))):
            known[watch.name] = watch
    slow = {name: watch.creation.seconds for name, watch in known.items() if watch.creation}
    slow = {name: late for name, late in slow.items() if late >= WRITE_SECONDS}
    prompt = not any(apiserver.troubled for apiserver in ticked_apiservers(evidence)) and not any_late(
        evidence.watches.values()
    )
    names = [None] if len(slow) > 1 and len(slow) == len(known) else [*slow]
    for name in names:
        late = max(slow.values()) if name is None else slow[name]
        confidence = Confidence.HIGH if prompt and late >= CERTAIN_WRITE_SECONDS else Confidence.MEDIUM
        sentence = (
            f"New {name or names_of(slow)} are committed {seconds(late)} after their creationTimestamp (P50)"
            f"{'; their events are then prompt' if prompt else ''}."
        )
        yield Finding(Cause.WRITE_PATH, None, name, confidence, sentence)


def _creations(watch: Watch | None) -> int:
    return watch.creation.events + 1 if watch and watch.creation else 0
