"""The table of causes: the evidence that each cause needs, and what to check next.

The rules are applied in the order of the table. A late watch that one rule explains is hidden from the rules below, so
each rule only has to distinguish its cause from the causes further down.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from watchslo.diagnose.evidence import (
    AFTERMATH_SECONDS,
    FROZEN,
    MOST_SHARE,
    STALLED,
    ApiserverEvidence,
    Evidence,
    Key,
    Place,
    Watch,
)
from watchslo.diagnose.own_figures import OwnEvidence, lists_heavily, own_evidence
from watchslo.diagnose.scopes import scopes
from watchslo.diagnose.sentences import apiservers_of, names_of, others_of, seconds, silence_of, ticks_of, worst_of
from watchslo.snapshot import Cause, Confidence

OVERLOADED_SHARE = 0.12  # of the last seconds in which watchslo itself was late
CERTAIN_OVERLOADED_SHARE = 0.17  # for high confidence
REFUSALS = 3  # a single 429 comes from a cache that is not ready
SHORT_SHARE = 0.75  # of the events that a peer receives in the same step: a watch that is only late receives as many
SHORT_BEFORE_SHARE = 0.95  # in the step before: a plain delay also brings fewer events in its first step
SHORT_EVENTS = 20  # of the peer in a step; fewer differ by chance
FLAT_SHARE = 1.25  # between the most and the fewest bytes of three steps
FLAT_BYTES = 1000  # in a step; less does not fill any link
SCATTERED_SHARE = 0.5  # of the watches that are late or have some late events
EXPIRED = 2  # 410s in a minute; each restart of an apiserver causes one
WRITE_SECONDS = 0.3  # creationTimestamp has whole seconds: a shorter median cannot be distinguished from 0
CERTAIN_WRITE_SECONDS = 0.6  # for high confidence
WRITE_EVENTS = 15  # fewer creations say too little about their median
STEP_SECONDS = 5.0  # between two snapshots
CATCH_UPS = 3  # in half a minute: a single one follows any interruption
UNKNOWN_SHARE = 0.2  # of the threshold: a shorter delay without a known cause is not reported


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause found in one evaluation; `explains` holds the watches whose delay it accounts for.

    `own` is what the apiservers' own metrics say of it.
    """

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence
    evidence: str
    explains: frozenset[Key] = frozenset()
    own: OwnEvidence | None = None


Rule = Callable[[Evidence, Collection[Key]], Iterable[Finding]]
"""Finds a cause in the evidence; the keys are the watches that no rule has explained yet."""


@dataclass(frozen=True, slots=True)
class CauseRule:
    """A row of the table. `next` says what to check; {apiserver} and {watch} are replaced by those of the finding."""

    cause: Cause
    rule: Rule
    next: str


Findings = Sequence[tuple[Finding, CauseRule]]
"""Findings with their rows."""


def find(evidence: Evidence) -> Generator[None, None, Findings]:
    """Return all findings, in the order of the table; pause after each rule.

    While watchslo itself is late, the confidence of every other cause is low.
    """
    found: list[tuple[Finding, CauseRule]] = []
    for row in TABLE:
        explained = {key for finding, _ in found for key in finding.explains}
        found += ((finding, row) for finding in row.rule(evidence, evidence.watches.keys() - explained))
        yield
    if any(finding.cause is Cause.MONITOR_OVERLOADED for finding, _ in found):
        return [
            (one if one.cause is Cause.MONITOR_OVERLOADED else replace(one, confidence=Confidence.LOW), row)
            for one, row in found
        ]
    return [(_with_own_evidence(one, evidence), row) for one, row in found]


def _with_own_evidence(finding: Finding, evidence: Evidence) -> Finding:
    return replace(finding, own=own_evidence(evidence, finding.cause, finding.apiserver, finding.watch))


# --- the rules, in the order of the table ----------------------------------------------------------------------------


def _monitor_overloaded(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    if evidence.tainted >= OVERLOADED_SHARE:
        confidence = Confidence.HIGH if evidence.tainted >= CERTAIN_OVERLOADED_SHARE else Confidence.MEDIUM
        sentence = f"watchslo itself was late for {evidence.tainted:.0%} of the last seconds and measured nothing then."
        yield Finding(Cause.MONITOR_OVERLOADED, None, None, confidence, sentence)


def _storage_slow(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """Ticks, which bypass all caches, are slow through every apiserver, while reads of the caches are prompt."""
    ticked = _ticked(evidence)
    places = [watch.place for watch in evidence.watches.values()]
    to_storage, to_client = places.count(Place.STORAGE), places.count(Place.CLIENT)
    if (
        not ticked
        or not all(one.troubled for one in ticked)
        or all(one.dead for one in ticked)
        or to_client > to_storage
    ):
        return
    if not to_storage and any(one.cache_slow for one in ticked):
        return  # reads that need no storage are slow too
    shown = to_storage > 0 or any(one.cache_slow is False or (one.silent and one.cache_answers) for one in ticked)
    if evidence.several_ticked:
        confidence = Confidence.HIGH if shown and not any(one.erratic for one in ticked) else Confidence.MEDIUM
    else:
        confidence = Confidence.MEDIUM if shown else Confidence.LOW
    where = "every apiserver" if evidence.several_ticked else ticked[0].text
    caches = ", while reads of watch caches are prompt" if shown else ""
    sentence = f"Consistent reads are slow through {where}{caches}; {ticks_of(ticked)}."
    yield Finding(Cause.STORAGE_SLOW, None, None, confidence, sentence, frozenset(evidence.watches))


def _ticked(evidence: Evidence) -> list[ApiserverEvidence]:
    """Return the apiservers with enough ticks to judge them, or with none answered."""
    return [one for one in evidence.ticked if one.tick is not None or one.silent]


def _others_are_prompt(evidence: Evidence, apiserver: ApiserverEvidence) -> bool:
    """Return whether there are other apiservers, and all of them answer ticks promptly."""
    others = [one for one in _ticked(evidence) if one is not apiserver]
    return bool(others) and not any(one.troubled for one in others)


def _storage_poller(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """With kine, the poll of an apiserver stands still, or the events of other servers wait long for it."""
    for one in evidence.apiservers.values():
        if one.kine and not one.troubled and _is_silent_on_watches(one):
            frozen = any(watch.reading.audit.result == FROZEN for watch in one.watches)
            confidence = Confidence.HIGH if frozen else Confidence.MEDIUM
            sentence = f"{one.first_text} delivers no event of any resource, although its consistent reads are prompt."
            yield Finding(Cause.STORAGE_POLLER, one.name, None, confidence, sentence, _keys(one, unexplained))
            continue
        waiting = [w for w in one.watches if w.key in unexplained and w.late and w.place is not Place.CLIENT]
        if one.polls and waiting:
            sentence = f"{one.first_text} finds changes of other servers by a poll of its storage: {worst_of(waiting)}."
            keys = frozenset(watch.key for watch in waiting)
            yield Finding(Cause.STORAGE_POLLER, one.name, None, Confidence.MEDIUM, sentence, keys)


def _apiserver_cut_off(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """An apiserver answers only requests that need no storage; or all its watch caches are frozen."""
    for one in evidence.apiservers.values():
        keys = _keys(one, unexplained)
        behind = [
            watch for watch in one.watches if watch.place is Place.STORAGE or watch.reading.audit.result == FROZEN
        ]
        silent = one.silent and not one.dead
        if not evidence.several_ticked or not keys or not (silent or (_is_silent_on_watches(one) and behind)):
            continue
        confidence = Confidence.MEDIUM
        if silent and one.cache_answers and behind and _others_are_prompt(evidence, one):
            confidence = Confidence.HIGH
        what = f"has answered no consistent read {silence_of(one)}" if silent else "has frozen watch caches"
        late = f", and its caches are out of date: {worst_of(behind)}" if _any_late(behind) else ""
        yield Finding(Cause.CACHE_BEHIND, one.name, None, confidence, f"{one.first_text} {what}{late}.", keys)


def _keys(apiserver: ApiserverEvidence, unexplained: Collection[Key]) -> frozenset[Key]:
    return frozenset(watch.key for watch in apiserver.watches if watch.key in unexplained)


def _any_late(watches: Iterable[Watch]) -> bool:
    return any(watch.late for watch in watches)


def _is_silent_on_watches(apiserver: ApiserverEvidence) -> bool:
    """Return whether several of its watches are stuck, and none delivers an event."""
    stuck = sum(watch.stuck for watch in apiserver.watches)
    return stuck > 1 and not any(watch.events[0] for watch in apiserver.watches)


def _apiserver_gone(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """An apiserver does not answer at all; or it answers, but its watches deliver nothing."""
    if _all_dead(evidence):
        return  # the network path that they share is more likely: see _bandwidth
    for one in evidence.apiservers.values():
        keys = _keys(one, unexplained)
        if one.dead:
            confidence = Confidence.HIGH if evidence.several_ticked and one.unanswered else Confidence.MEDIUM
            others = "; the other apiservers answer" if evidence.several_ticked else ""
            sentence = f"{one.first_text} has answered no request at all {silence_of(one)}{others}."
            yield Finding(Cause.APISERVER_SENDING, one.name, None, confidence, sentence, keys)
        elif _is_silent_on_watches(one) and keys and not one.silent:
            late = f", {worst_of(one.watches)}" if _any_late(one.watches) else ""
            sentence = f"{one.first_text} answers requests, but none of its watches delivers events{late}."
            yield Finding(Cause.APISERVER_SENDING, one.name, None, Confidence.MEDIUM, sentence, keys)


def _all_dead(evidence: Evidence) -> bool:
    """Return whether there are several apiservers, and none of them answers."""
    return evidence.several_ticked and all(one.dead for one in evidence.ticked)


def _relist_storm(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """From outside, a relist storm looks like load: 429s, or delays that differ from event to event."""
    refusing = [one for one in evidence.apiservers.values() if one.refusals >= REFUSALS]
    loaded = [one for one in evidence.apiservers.values() if _is_loaded(evidence, one, unexplained)]
    busy = {one.name: one for one in (*refusing, *loaded)}
    if not busy:
        return
    if refusing:
        facts = [f"{one.first_text} refused {one.refusals} requests of watchslo with 429" for one in refusing]
    else:
        spans = (f"{seconds(o.low or 0.0)} to {seconds(o.high or 0.0)} ({o.text})" for o in loaded)
        facts = [f"Delays vary widely: ticks take {', '.join(spans)}"]
    keys = frozenset[Key]().union(*(_keys(one, unexplained) for one in busy.values()))
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
        and not any(_receives_fewer(evidence, watch) for watch in touched)
    )


def _bandwidth(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """Fewer events get through than there are, or the connection itself is as slow as its watch."""
    if _all_dead(evidence):
        sentence = f"None of the {len(evidence.apiservers)} apiservers answers."
        yield Finding(Cause.BANDWIDTH, None, None, Confidence.MEDIUM, sentence, frozenset(unexplained))
        return
    for scope in scopes(evidence, unexplained):
        if scope.apiserver is None and scope.watch is None and scope.place is Place.CLIENT:
            sentence = f"At every apiserver, watches are late after the watch cache: {worst_of(scope.watches)}."
            yield Finding(Cause.BANDWIDTH, None, None, Confidence.MEDIUM, sentence, scope.keys)
            return
    for one in evidence.apiservers.values():
        yield from _bandwidth_of(evidence, one, unexplained)


def _bandwidth_of(evidence: Evidence, apiserver: ApiserverEvidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    late = [
        w for w in apiserver.watches if w.key in unexplained and w.late and not w.stuck and w.place is not Place.STORAGE
    ]
    short = [watch for watch in late if _receives_fewer(evidence, watch)]
    lagging = [watch for watch in late if watch.grows and _is_flat(watch)]
    far = [
        w
        for w in late
        if w.reading.session.transport and w.reading.session.transport.round_trip >= MOST_SHARE * (w.lateness or 0.0)
    ]
    dropped = [watch for watch in apiserver.watches if watch.slow_consumer and late]
    if short:
        worst = min(short, key=lambda watch: watch.events[0])
        peer = max(one.events[0] for one in evidence.peers(worst))
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
        Cause.BANDWIDTH, apiserver.name, None, confidence, f"{sentence}{delay}.", _keys(apiserver, unexplained)
    )


def _rate(watch: Watch) -> str:
    """Return the bytes per second of the last step, as text."""
    return f"{watch.bytes[0] / STEP_SECONDS:,.0f} bytes/s"


def _slowest_trip(watches: Iterable[Watch]) -> float:
    return max(watch.reading.session.transport.round_trip for watch in watches if watch.reading.session.transport)


def _receives_fewer(evidence: Evidence, watch: Watch) -> bool:
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


def _is_flat(watch: Watch) -> bool:
    """Return whether the last three steps brought about as many bytes each: the link, not the load, sets the rate."""
    sizes = watch.bytes[:3]
    return min(sizes) >= FLAT_BYTES and max(sizes) <= FLAT_SHARE * min(sizes)


def _slow_path(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """Everything that one apiserver sends is late alike, and no faster apiserver excludes the network between."""
    late: dict[str, list[Watch]] = defaultdict(list)
    for scope in scopes(evidence, unexplained):
        if scope.apiserver is not None and scope.place is Place.CLIENT:
            late[scope.apiserver] += scope.watches
    for one in evidence.apiservers.values():
        watches = late[one.name]
        is_slow_only = one.slow and not evidence.several_ticked and _is_prompt(one, unexplained)
        if _is_far(evidence, one) and (watches or is_slow_only):
            sentence = (
                f"The network to {one.text} is slow, or {one.text} itself: all that it sends is late by about the same "
                f"time{f'; {worst_of(watches)}' if watches else ''}; {ticks_of(_ticked(evidence))}."
            )
            keys = frozenset(watch.key for watch in watches)
            yield Finding(Cause.BANDWIDTH, one.name, None, Confidence.LOW, sentence, keys)


def _is_far(evidence: Evidence, apiserver: ApiserverEvidence) -> bool:
    """Return whether ticks take as long as slow reads of caches, steadily, and no other apiserver answers sooner."""
    tick, read = apiserver.tick, apiserver.cache_trip
    if tick is None or read is None or not apiserver.cache_slow or apiserver.erratic:
        return False
    others = [one.tick for one in _ticked(evidence) if one is not apiserver and one.tick is not None]
    return tick >= MOST_SHARE * read and all(other >= MOST_SHARE * tick for other in others)


def _slow_ticks(cause: Cause, confidence: Confidence, *, cache_slow: bool | None, caches: str) -> Rule:
    """Return a rule for an apiserver whose ticks are slow, while no watch is late: a client that reads waits there.

    `cache_slow` says how reads of its caches must be, and `caches` is that as text for the evidence.
    """

    def rule(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
        for one in evidence.apiservers.values():
            is_alone = not evidence.several_ticked or _others_are_prompt(evidence, one)
            if _is_far(evidence, one):
                continue  # see _slow_path
            if not (one.slow and one.cache_slow is cache_slow and is_alone and _is_prompt(one, unexplained)):
                continue
            sentence = f"Consistent reads are slow through {one.text}, {caches}; {ticks_of(_ticked(evidence))}."
            certain = confidence if evidence.several_ticked else Confidence.LOW
            yield Finding(cause, one.name, None, certain, sentence)

    return rule


def _is_prompt(apiserver: ApiserverEvidence, unexplained: Collection[Key]) -> bool:
    """Return whether it has watches, and none of them is late, stuck or explained by another cause."""
    watches = apiserver.watches
    return bool(watches) and not any(one.late or one.stuck or one.key not in unexplained for one in watches)


def _cache_behind(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    for scope in scopes(evidence, unexplained):
        several = evidence.several_watched if scope.watch else evidence.several_ticked
        if scope.apiserver is None or scope.place is not Place.STORAGE or not several:
            continue
        one = evidence.apiservers[scope.apiserver]
        confidence = Confidence.MEDIUM
        if one.slow and not one.erratic and scope.watch is None and _others_are_prompt(evidence, one):
            confidence = Confidence.HIGH
        sentence = (
            f"The watch cache of {one.text} is behind storage: {worst_of(scope.watches)}"
            f"{others_of(evidence, scope.watches)}; {ticks_of(_ticked(evidence))}."
        )
        yield Finding(Cause.CACHE_BEHIND, scope.apiserver, scope.watch, confidence, sentence, scope.keys)


def _storage_late(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """Ticks are prompt, but the events of every watch come late from storage."""
    for scope in scopes(evidence, unexplained):
        of_all = scope.watch is None and (scope.apiserver is None or not evidence.several_watched)
        if of_all and scope.place is Place.STORAGE:
            sentence = f"Events reach every watch cache late: {worst_of(scope.watches)}; {ticks_of(_ticked(evidence))}."
            yield Finding(Cause.STORAGE_SLOW, None, None, Confidence.MEDIUM, sentence, scope.keys)


def _apiserver_sending(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    for scope in scopes(evidence, unexplained):
        if scope.apiserver is None or scope.place is not Place.CLIENT or (scope.watch and not evidence.several_watched):
            continue
        one = evidence.apiservers[scope.apiserver]
        confidence = Confidence.MEDIUM
        if (
            one.slow
            and not one.erratic
            and scope.watch is None
            and _others_are_prompt(evidence, one)
            and evidence.several_watched
            and all(_flows(evidence, watch) for watch in scope.watches)
        ):
            confidence = Confidence.HIGH
        late = worst_of(scope.watches)
        what = f"answers everything late: {late}" if one.cache_slow else f"sends {late}, although its cache is current"
        sentence = f"{one.first_text} {what}{others_of(evidence, scope.watches)}; {ticks_of(_ticked(evidence))}."
        yield Finding(Cause.APISERVER_SENDING, scope.apiserver, scope.watch, confidence, sentence, scope.keys)


def _flows(evidence: Evidence, watch: Watch) -> bool:
    """Return whether the watch receives about as many events as its peers, or these receive too few to compare."""
    most = max((peer.events[0] for peer in evidence.peers(watch)), default=0)
    return most < SHORT_EVENTS or watch.events[0] > SHORT_SHARE * most


def _of_one_resource(cause: Cause, place: Place, hop: str) -> Rule:
    """Return a rule for a delay of one resource at all apiservers.

    `hop` is the text for the place in the evidence.
    """

    def rule(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
        for scope in scopes(evidence, unexplained):
            of_one = scope.watch is not None and (scope.apiserver is None or not evidence.several_watched)
            if not of_one or scope.place is not place:
                continue
            others = [_any_healthy(evidence.apiservers[one.apiserver]) for one in scope.watches]
            if not any(others):
                continue  # see _not_compared
            alone = all(others)
            prompt = not any(one.troubled for one in _ticked(evidence))
            confidence = Confidence.HIGH if evidence.several_watched and alone and prompt else Confidence.MEDIUM
            where = "all apiservers" if evidence.several_watched else "the apiserver"
            rest = "; other resources are healthy" if alone else ""
            sentence = f"{worst_of(scope.watches)} at {where}, {hop}{rest}; {ticks_of(_ticked(evidence))}."
            yield Finding(cause, scope.apiserver, scope.watch, confidence, sentence, scope.keys)

    return rule


def _whole_objects_late(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
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


def _any_healthy(apiserver: ApiserverEvidence) -> bool:
    return any(watch.healthy for watch in apiserver.watches)


def _not_compared(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """One resource is late on a known hop, and no other one shows whether that is the fault of this resource."""
    for scope in scopes(evidence, unexplained):
        if scope.watch is None or scope.place is None:
            continue
        hop = "before the watch cache" if scope.place is Place.STORAGE else "after the watch cache"
        where = "all apiservers" if evidence.several_watched else "the apiserver"
        sentence = (
            f"{worst_of(scope.watches)} at {where}, {hop}; no other watched resource shows whether only "
            f"{scope.watch} is late; {ticks_of(_ticked(evidence))}."
        )
        yield Finding(Cause.UNKNOWN, scope.apiserver, scope.watch, Confidence.LOW, sentence, scope.keys)


def _parked_watch(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """One watch pauses and catches up again and again without being closed, while others of its apiserver are prompt.

    An apiserver treats a watch so that it parks as too slow (KEP-6268), instead of closing it.
    """
    for key in sorted(unexplained):
        watch, one = evidence.watches[key], evidence.apiservers[key[0]]
        others = [other for other in one.watches if other.key != key]
        if watch.catch_ups < CATCH_UPS or watch.place is Place.STORAGE or one.troubled:
            continue
        if any(other.healthy for other in others) and not any(other.catch_ups for other in others):
            sentence = (
                f"{watch.name} at {one.text} paused and caught up {watch.catch_ups} times in "
                f"{AFTERMATH_SECONDS:.0f} s without being closed; other watches there are prompt."
            )
            yield Finding(Cause.PARKED_WATCH, watch.apiserver, watch.name, Confidence.LOW, sentence, frozenset({key}))


def _stalled_stream(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    stuck: dict[str, list[Watch]] = defaultdict(list)
    for key in sorted(unexplained):
        if evidence.watches[key].stuck or _was_stuck_alone(evidence, key):
            stuck[key[1]].append(evidence.watches[key])
    for name, watches in stuck.items():
        peers_deliver = any(one.events[0] for watch in watches for one in evidence.peers(watch))
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
    alive = all(not one.troubled and any(watch.events[0] for watch in one.watches) for one in servers)
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


def _headroom_short(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
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


def _write_path(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    known: dict[str, Watch] = {}
    for key in sorted(unexplained):
        watch = evidence.watches[key]
        if watch.creation and watch.creation.events >= max(WRITE_EVENTS, _creations(known.get(watch.name))):
            known[watch.name] = watch
    slow = {name: one.creation.seconds for name, one in known.items() if one.creation}
    slow = {name: late for name, late in slow.items() if late >= WRITE_SECONDS}
    prompt = not any(one.troubled for one in _ticked(evidence)) and not _any_late(evidence.watches.values())
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


def _listing(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    """No other cause fits, and the apiserver itself counts lists of many objects, or refuses requests."""
    for one in evidence.apiservers.values():
        keys = _keys(one, unexplained)
        late = [watch for key, watch in evidence.watches.items() if key in keys and watch.late]
        if late and one.own is not None and lists_heavily(one.own):
            sentence = f"{one.first_text} is busy with lists: {worst_of(late)}."
            yield Finding(Cause.RELIST_STORM, one.name, None, Confidence.LOW, sentence, keys)


def _unknown(evidence: Evidence, unexplained: Collection[Key]) -> Iterator[Finding]:
    late = [
        watch
        for key, watch in evidence.watches.items()
        if key in unexplained and watch.lateness and watch.lateness >= UNKNOWN_SHARE * watch.threshold
    ]
    if late:
        where = apiservers_of(late)
        sentence = f"{worst_of(late)} at {where}; no known cause fits; {ticks_of(_ticked(evidence))}."
        yield Finding(Cause.UNKNOWN, None, None, Confidence.LOW, sentence, frozenset(watch.key for watch in late))


CHECK_LINK = (
    "Check the connection from {apiserver} to etcd: its etcd_request_duration_seconds, and "
    "apiserver_watch_cache_read_wait_seconds."
)
CHECK_APISERVER = (
    "Check the CPU and the network of {apiserver}: process_cpu_seconds_total, apiserver_watch_events_total, and "
    "apiserver_terminated_watchers_total."
)
CHECK_LISTS = (
    'Find which clients list at {apiserver}: apiserver_request_total{{verb="LIST"}}, '
    "apiserver_current_inflight_requests, apiserver_flowcontrol_rejected_requests_total, and the user agents in "
    "the audit log."
)
TABLE = (
    CauseRule(
        Cause.MONITOR_OVERLOADED,
        _monitor_overloaded,
        "Give watchslo more CPU or fewer watches. Check watchslo_loop_lag_seconds, and "
        "container_cpu_cfs_throttled_periods_total of its container.",
    ),
    CauseRule(
        Cause.STORAGE_SLOW,
        _storage_slow,
        "Check etcd: etcd_disk_wal_fsync_duration_seconds, etcd_network_peer_round_trip_time_seconds, and "
        "etcd_request_duration_seconds of the apiservers. With a single apiserver, check its link to etcd too.",
    ),
    CauseRule(
        Cause.STORAGE_POLLER,
        _storage_poller,
        "If nothing is delivered, restart k3s, or kine, at {apiserver}, and look for its last errors in the log. If "
        "events are late, check the load of the database, and --datastore-poll-interval of kine.",
    ),
    CauseRule(
        Cause.CACHE_BEHIND,
        _apiserver_cut_off,
        "Check the connection from {apiserver} to etcd: its etcd_request_duration_seconds and the errors in its log.",
    ),
    CauseRule(
        Cause.APISERVER_SENDING,
        _apiserver_gone,
        "Check that {apiserver} runs and can be reached: its log, its CPU and memory, its /livez.",
    ),
    CauseRule(
        Cause.RELIST_STORM,
        _relist_storm,
        CHECK_LISTS,
    ),
    CauseRule(
        Cause.PARKED_WATCH,
        _parked_watch,
        "Check why {apiserver} takes the clients of {watch} for slow: the network between, "
        "apiserver_watch_cache_stalled_watchers and apiserver_terminated_watchers_total, and the rate and the size of "
        "the events.",
    ),
    CauseRule(
        Cause.BANDWIDTH,
        _bandwidth,
        "Check the network from {apiserver} to its clients: load balancers, bytes per second of its interfaces, its "
        "rest_client metrics and apiserver_watch_events_sizes_sum. Many clients may share one connection.",
    ),
    CauseRule(
        Cause.BANDWIDTH,
        _slow_path,
        "Measure the round trip to {apiserver}, and check proxies, load balancers and VPNs on the way. If these are "
        "fast, check the CPU of the apiserver: process_cpu_seconds_total.",
    ),
    CauseRule(
        Cause.CACHE_BEHIND,
        _slow_ticks(Cause.CACHE_BEHIND, Confidence.MEDIUM, cache_slow=False, caches="while its caches are prompt"),
        CHECK_LINK,
    ),
    CauseRule(
        Cause.APISERVER_SENDING,
        _slow_ticks(Cause.APISERVER_SENDING, Confidence.MEDIUM, cache_slow=True, caches="as are reads of its caches"),
        CHECK_APISERVER,
    ),
    CauseRule(
        Cause.UNKNOWN,
        _slow_ticks(Cause.UNKNOWN, Confidence.LOW, cache_slow=None, caches="and its caches are not read"),
        "Compare reads of the caches of {apiserver} with its ticks: `hops: true` for one of its watches reads them.",
    ),
    CauseRule(
        Cause.CACHE_BEHIND,
        _cache_behind,
        CHECK_LINK,
    ),
    CauseRule(
        Cause.STORAGE_SLOW,
        _storage_late,
        "Check etcd: etcd_debugging_mvcc_slow_watcher_total and etcd_debugging_mvcc_pending_events_total.",
    ),
    CauseRule(
        Cause.APISERVER_SENDING,
        _apiserver_sending,
        CHECK_APISERVER,
    ),
    CauseRule(
        Cause.RESOURCE_DECODING,
        _of_one_resource(Cause.RESOURCE_DECODING, Place.STORAGE, "before the watch cache"),
        "Check what is special about {watch}: a storage of its own (--etcd-servers-overrides), a conversion webhook "
        "(apiserver_crd_conversion_webhook_duration_seconds), encryption at rest, large objects.",
    ),
    CauseRule(
        Cause.RESOURCE_FANOUT,
        _of_one_resource(Cause.RESOURCE_FANOUT, Place.CLIENT, "after the watch cache"),
        "Check how many clients watch {watch} and how large its events are: apiserver_longrunning_requests, "
        "apiserver_watch_events_sizes, apiserver_watch_cache_events_dispatched_total.",
    ),
    CauseRule(
        Cause.RESOURCE_FANOUT,
        _whole_objects_late,
        "Check how large the objects of {watch} are (apiserver_watch_events_sizes), and the CPU and the network of "
        "{apiserver}: process_cpu_seconds_total, and bytes per second of its interfaces.",
    ),
    CauseRule(
        Cause.STALLED_STREAM,
        _stalled_stream,
        "Check load balancers and firewalls between watchslo and {apiserver} for silently dropped connections, and the "
        "watch cache of {watch}: apiserver_watch_cache_events_received_total must increase.",
    ),
    CauseRule(
        Cause.HEADROOM_SHORT,
        _headroom_short,
        "Let clients of {watch} start faster, for example with streamed lists: `watchslo rehearse` compares the list "
        "strategies. Watch caches size themselves within bounds: watch_cache_capacity.",
    ),
    CauseRule(
        Cause.WRITE_PATH,
        _write_path,
        "Check validating admission and the writes to storage: "
        "apiserver_admission_webhook_admission_duration_seconds, etcd_request_duration_seconds.",
    ),
    CauseRule(
        Cause.RELIST_STORM,
        _listing,
        CHECK_LISTS,
    ),
    CauseRule(
        Cause.UNKNOWN,
        _not_compared,
        "Watch other resources that change often, such as leases.coordination.k8s.io. If they are late too, check "
        "{apiserver} and the network to it; if not, check what is special about {watch}.",
    ),
    CauseRule(
        Cause.UNKNOWN,
        _unknown,
        "Compare the hops in /api/v1/status; set `hops: true` for watches that have none.",
    ),
)
