"""The table of causes: by which evidence each is told, and what to look at next.

The rows are asked one after the other. What a row explains is not judged again by those below it, so each rule need
only tell its cause from its neighbours further down.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from watchslo.diagnose.evidence import FROZEN, MOST, STALLED, Apiserver, Evidence, Key, Place, Watch
from watchslo.diagnose.scopes import scopes
from watchslo.diagnose.sentences import names_of, others_of, seconds, silence_of, ticks_of, worst_of
from watchslo.snapshot import Cause, Confidence

OVERLOADED_SHARE = 0.12  # of the time we were late ourselves
SURELY_OVERLOADED_SHARE = 0.17
REFUSALS = 3  # one 429 is a cache that is not ready
SHORT_SHARE = 0.75  # of the events that peers get in the same time: what is only late gets as many
SHORT_BEFORE_SHARE = 0.95  # in the step before: in the one in which a mere delay begins there are fewer too
SHORT_EVENTS = 20  # in a step
FLAT_SHARE = 1.25  # between the most and the fewest bytes of three steps
FLAT_BYTES = 1000
SCATTERED_SHARE = 0.5  # of the watches that are late, or sometimes are
EXPIRED = 2  # 410s in a minute; one follows each restart of an apiserver
WRITE_SECONDS = 0.3  # creationTimestamp has whole seconds: medians below are not told from none
SURELY_WRITE_SECONDS = 0.6
WRITE_EVENTS = 15
STEP_SECONDS = 5.0  # between two snapshots
UNKNOWN_SHARE = 0.2  # of its threshold, until late is worth a word without a cause


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause, now. `explains` are the watches whose lateness it accounts for."""

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence
    evidence: str
    explains: frozenset[Key] = frozenset()


Rule = Callable[[Evidence, Collection[Key]], Iterable[Finding]]
"""Finds a cause in the evidence; the keys are the watches that nothing has explained yet."""


@dataclass(frozen=True, slots=True)
class Row:
    """One cause. `next` says what to look at: {apiserver} and {watch} stand for what the finding names."""

    cause: Cause
    rule: Rule
    next: str


def find(evidence: Evidence) -> list[tuple[Finding, Row]]:
    """All causes, each with its row, in the order of the table. While we are late ourselves no other is sure."""
    found: list[tuple[Finding, Row]] = []
    for row in TABLE:
        explained = {key for finding, _ in found for key in finding.explains}
        found += ((finding, row) for finding in row.rule(evidence, evidence.watches.keys() - explained))
    if any(finding.cause is Cause.MONITOR_OVERLOADED for finding, _ in found):
        return [
            (one if one.cause is Cause.MONITOR_OVERLOADED else replace(one, confidence=Confidence.LOW), row)
            for one, row in found
        ]
    return found


# --- the rules, in the order of the table ----------------------------------------------------------------------------


def _monitor_overloaded(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    if evidence.tainted >= OVERLOADED_SHARE:
        sure = Confidence.HIGH if evidence.tainted >= SURELY_OVERLOADED_SHARE else Confidence.MEDIUM
        sentence = (
            f"This process was late itself for {evidence.tainted:.0%} of the last seconds: it measures nothing then."
        )
        yield Finding(Cause.MONITOR_OVERLOADED, None, None, sure, sentence)


def _storage_slow(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """Ticks read past all caches: slow through every apiserver, while what is in the caches comes promptly."""
    asked = _asked(evidence)
    places = [watch.place for watch in evidence.watches.values()]
    to_storage, to_client = places.count(Place.STORAGE), places.count(Place.CLIENT)
    if not asked or not all(one.troubled for one in asked) or all(one.dead for one in asked) or to_client > to_storage:
        return
    if not to_storage and any(one.cache_slow for one in asked):
        return  # even what needs no storage is slow
    shown = to_storage > 0 or any(one.cache_slow is False or (one.silent and one.cache_answers) for one in asked)
    if evidence.several:
        sure = Confidence.HIGH if shown and not any(one.erratic for one in asked) else Confidence.MEDIUM
    else:
        sure = Confidence.MEDIUM if shown else Confidence.LOW
    sentence = f"Consistent reads are slow through every apiserver ({ticks_of(asked)})" + (
        ", while what is in their caches is answered promptly." if shown else "."
    )
    yield Finding(Cause.STORAGE_SLOW, None, None, sure, sentence, frozenset(evidence.watches))


def _asked(evidence: Evidence) -> list[Apiserver]:
    """Those whose ticks tell something."""
    return [one for one in evidence.apiservers.values() if one.tick is not None or one.silent]


def _others_are_prompt(evidence: Evidence, apiserver: Apiserver) -> bool:
    """Whether there are others, and none of them is in trouble."""
    others = [one for one in _asked(evidence) if one is not apiserver]
    return bool(others) and not any(one.troubled for one in others)


def _apiserver_cut_off(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    """It answers, but nothing that needs the storage; or all its caches stand still."""
    for one in evidence.apiservers.values():
        keys = _keys(one, open_)
        behind = [watch for watch in one.watches if watch.place is Place.STORAGE or watch.reading.audit == FROZEN]
        silent = one.silent and not one.dead
        if not evidence.several or not keys or not (silent or (_is_mute(one) and behind)):
            continue
        sure = Confidence.MEDIUM
        if silent and one.cache_answers and behind and _others_are_prompt(evidence, one):
            sure = Confidence.HIGH
        what = f"has answered no consistent read {silence_of(one)}" if silent else "has caches that stand still"
        late = f", and its caches answer with what is old: {worst_of(behind)}" if _known_late(behind) else ""
        yield Finding(Cause.CACHE_BEHIND, one.name, None, sure, f"{one.name} {what}{late}.", keys)


def _keys(apiserver: Apiserver, open_: Collection[Key]) -> frozenset[Key]:
    return frozenset(watch.key for watch in apiserver.watches if watch.key in open_)


def _known_late(watches: Iterable[Watch]) -> bool:
    return any(watch.late for watch in watches)


def _is_mute(apiserver: Apiserver) -> bool:
    """Whether several of its watches are stuck, and none brings anything."""
    stuck = sum(watch.stuck for watch in apiserver.watches)
    return stuck > 1 and not any(watch.events[0] for watch in apiserver.watches)


def _apiserver_gone(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    """Nothing comes from it; or nothing on its watches, though it answers."""
    dead = [one for one in evidence.apiservers.values() if one.dead]
    if evidence.several and len(dead) == len(evidence.apiservers):
        return  # that is what they have in common: the way
    for one in evidence.apiservers.values():
        keys = _keys(one, open_)
        if one.dead:
            sure = Confidence.HIGH if evidence.several and one.unanswered else Confidence.MEDIUM
            others = "; the others answer" if evidence.several else ""
            sentence = f"{one.name} has answered nothing at all {silence_of(one)}{others}."
            yield Finding(Cause.APISERVER_SENDING, one.name, None, sure, sentence, keys)
        elif _is_mute(one) and keys and not one.silent:
            late = f", {worst_of(one.watches)}" if _known_late(one.watches) else ""
            sentence = f"{one.name} answers, but none of its watches brings anything{late}."
            yield Finding(Cause.APISERVER_SENDING, one.name, None, Confidence.MEDIUM, sentence, keys)


def _relist_storm(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    """From outside it looks like load: requests are refused, or all is late, each by another time."""
    refusing = [one for one in evidence.apiservers.values() if one.refusals >= REFUSALS]
    loaded = [one for one in evidence.apiservers.values() if _is_loaded(evidence, one, open_)]
    busy = {one.name: one for one in (*refusing, *loaded)}
    if not busy:
        return
    if refusing:
        told = [f"{one.name} has refused {one.refusals} of our requests with 429" for one in refusing]
    else:
        spans = (f"through {o.name} {seconds(o.low or 0.0)} to {seconds(o.high or 0.0)}" for o in loaded)
        told = [f"Some answers are late by much and others by little: ticks {', '.join(spans)}"]
    keys = frozenset[Key]().union(*(_keys(one, open_) for one in busy.values()))
    late = [evidence.watches[key] for key in keys if evidence.watches[key].late]
    sentence = "; ".join([*told, *([worst_of(late)] if late else [])]) + "."
    name = next(iter(busy)) if len(busy) == 1 else None
    yield Finding(Cause.RELIST_STORM, name, None, Confidence.MEDIUM, sentence, keys)


def _is_loaded(evidence: Evidence, apiserver: Apiserver, open_: Collection[Key]) -> bool:
    """Whether ticks and watches are late, each by another time: what waits for a CPU is, and no delay on a way."""
    touched = [w for w in apiserver.watches if w.key in open_ and not w.stuck and (w.late or w.scattered)]
    scattered = sum(watch.scattered for watch in touched)
    return (
        (apiserver.slow or apiserver.erratic)
        and len(touched) > 1
        and any(watch.late for watch in touched)
        and scattered >= SCATTERED_SHARE * len(touched)
        and not any(_is_short(evidence, watch) for watch in touched)
    )


def _bandwidth(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    """Less gets through than there is to send, or the connection itself is as slow as its watch."""
    if evidence.several and all(one.dead for one in evidence.apiservers.values()):
        sentence = f"None of the {len(evidence.apiservers)} apiservers answers."
        yield Finding(Cause.BANDWIDTH, None, None, Confidence.MEDIUM, sentence, frozenset(open_))
        return
    for scope in scopes(evidence, open_):
        if scope.apiserver is None and scope.watch is None and scope.place is Place.CLIENT:
            sentence = f"Watches of every apiserver are late after its cache: {worst_of(scope.watches)}."
            yield Finding(Cause.BANDWIDTH, None, None, Confidence.MEDIUM, sentence, scope.keys)
            return
    for one in evidence.apiservers.values():
        yield from _bandwidth_of(evidence, one, open_)


def _bandwidth_of(evidence: Evidence, apiserver: Apiserver, open_: Collection[Key]) -> Iterator[Finding]:
    late = [w for w in apiserver.watches if w.key in open_ and w.late and not w.stuck and w.place is not Place.STORAGE]
    short = [watch for watch in late if _is_short(evidence, watch)]
    thin = [watch for watch in late if watch.grows and _is_flat(watch)]
    far = [w for w in late if w.reading.transport and w.reading.transport.round_trip >= MOST * (w.lateness or 0.0)]
    dropped = [watch for watch in apiserver.watches if watch.slow_consumer and late]
    if short:
        worst = min(short, key=lambda watch: watch.events[0])
        peer = max(one.events[0] for one in evidence.peers(worst))
        sentence = f"{worst.name} has got {worst.events[0]} events from {apiserver.name} while another sent {peer}"
    elif thin:
        sentence = f"{thin[0].name} gets ever later from {apiserver.name}, at a steady {_rate(thin[0])}"
    elif far:
        sentence = f"The connection to {apiserver.name} takes {seconds(_slowest_trip(far))} for a round trip"
    elif dropped:
        names = names_of(watch.name for watch in dropped)
        sentence = f"{apiserver.name} has closed watches that could not be sent fast enough ({names})"
    else:
        return
    surely = short and any(_is_flat(watch) for watch in short) and not apiserver.erratic
    sure = Confidence.HIGH if surely else Confidence.MEDIUM
    told = f"; {worst_of(late)}" if late else ""
    yield Finding(Cause.BANDWIDTH, apiserver.name, None, sure, f"{sentence}{told}.", _keys(apiserver, open_))


def _rate(watch: Watch) -> str:
    """Its bytes a second, of the last step."""
    return f"{watch.bytes[0] / STEP_SECONDS:,.0f} bytes a second"


def _slowest_trip(watches: Iterable[Watch]) -> float:
    return max(watch.reading.transport.round_trip for watch in watches if watch.reading.transport)


def _is_short(evidence: Evidence, watch: Watch) -> bool:
    """Whether it got some, but clearly fewer events than another apiserver sent, and began to before the last step."""
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
    """Whether the last steps brought the same, however much there was."""
    sizes = watch.bytes[:3]
    return min(sizes) >= FLAT_BYTES and max(sizes) <= FLAT_SHARE * min(sizes)


def _cache_behind(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    for scope in scopes(evidence, open_):
        if scope.apiserver is None or scope.place is not Place.STORAGE or not evidence.several:
            continue
        one = evidence.apiservers[scope.apiserver]
        sure = Confidence.MEDIUM
        if one.slow and not one.erratic and scope.watch is None and _others_are_prompt(evidence, one):
            sure = Confidence.HIGH
        sentence = (
            f"{scope.apiserver} has {worst_of(scope.watches)} in its cache after storage"
            f"{others_of(evidence, scope.watches)}; {ticks_of(_asked(evidence))}."
        )
        yield Finding(Cause.CACHE_BEHIND, scope.apiserver, scope.watch, sure, sentence, scope.keys)


def _storage_late(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    """Ticks are prompt, and still everything comes late from the storage."""
    for scope in scopes(evidence, open_):
        of_all = scope.watch is None and (scope.apiserver is None or not evidence.several)
        if of_all and scope.place is Place.STORAGE:
            sentence = f"Everything reaches the caches late: {worst_of(scope.watches)}; {ticks_of(_asked(evidence))}."
            yield Finding(Cause.STORAGE_SLOW, None, None, Confidence.MEDIUM, sentence, scope.keys)


def _apiserver_sending(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    for scope in scopes(evidence, open_):
        if scope.apiserver is None or scope.place is not Place.CLIENT or (scope.watch and not evidence.several):
            continue
        one = evidence.apiservers[scope.apiserver]
        sure = Confidence.MEDIUM
        if (
            one.slow
            and not one.erratic
            and scope.watch is None
            and _others_are_prompt(evidence, one)
            and all(_flows(evidence, watch) for watch in scope.watches)
        ):
            sure = Confidence.HIGH
        late = worst_of(scope.watches)
        what = f"says everything late, {late}" if one.cache_slow else f"hands out {late} though its cache is fresh"
        sentence = f"{scope.apiserver} {what}{others_of(evidence, scope.watches)}; {ticks_of(_asked(evidence))}."
        yield Finding(Cause.APISERVER_SENDING, scope.apiserver, scope.watch, sure, sentence, scope.keys)


def _flows(evidence: Evidence, watch: Watch) -> bool:
    """Whether it gets as many events as others, if later."""
    most = max((peer.events[0] for peer in evidence.peers(watch)), default=0)
    return most < SHORT_EVENTS or watch.events[0] > SHORT_SHARE * most


def _of_one_resource(cause: Cause, place: Place, words: str) -> Rule:
    """Of the apiservers' caches, only that of one resource is the problem, or what comes after it."""

    def rule(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
        for scope in scopes(evidence, open_):
            of_one = scope.watch is not None and (scope.apiserver is None or not evidence.several)
            if not of_one or scope.place is not place:
                continue
            alone = all(any(w.well for w in evidence.apiservers[one.apiserver].watches) for one in scope.watches)
            prompt = not any(one.troubled for one in _asked(evidence))
            sure = Confidence.HIGH if evidence.several and alone and prompt else Confidence.MEDIUM
            where = "all apiservers" if evidence.several else "the apiserver"
            rest = "; other resources are well" if alone else ""
            sentence = f"{worst_of(scope.watches)} at {where}, {words}{rest}; {ticks_of(_asked(evidence))}."
            yield Finding(cause, scope.apiserver, scope.watch, sure, sentence, scope.keys)

    return rule


def _stalled_stream(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    stuck: dict[str, list[Watch]] = defaultdict(list)
    for key in sorted(open_):
        if evidence.watches[key].stuck or _was_stuck_alone(evidence, key):
            stuck[key[1]].append(evidence.watches[key])
    for name, watches in stuck.items():
        told = any(one.events[0] for watch in watches for one in evidence.peers(watch))
        if evidence.several and (len(watches) > 1 or not told):
            yield _stalled(evidence, None, name, watches)
        else:
            yield from (_stalled(evidence, watch.apiserver, name, [watch]) for watch in watches)


def _was_stuck_alone(evidence: Evidence, key: Key) -> bool:
    """Whether an audit has mended it; where it has mended several of an apiserver, it was not the stream."""
    others = (w for w in evidence.apiservers[key[0]].watches if w.key != key)
    return evidence.watches[key].stalls > 0 and not any(watch.stalls or watch.stuck for watch in others)


def _stalled(evidence: Evidence, apiserver: str | None, name: str, watches: Sequence[Watch]) -> Finding:
    servers = [evidence.apiservers[watch.apiserver] for watch in watches]
    alive = all(not one.troubled and any(watch.events[0] for watch in one.watches) for one in servers)
    proven = apiserver is not None or any(watch.reading.audit in (STALLED, FROZEN) for watch in watches)
    still = any(watch.stuck for watch in watches)
    sure = Confidence.HIGH if still and alive and proven else Confidence.MEDIUM
    held = max(max(w.reading.stalled_for or 0.0, w.reading.behind_peers or 0.0) for w in watches)
    if any(watch.reading.audit == FROZEN for watch in watches):
        what = f"comes from a cache that is frozen, for {seconds(held)}"
    elif still:
        what = f"has said nothing for {seconds(held)} though there is something to say"
    else:
        what = "withheld events until an audit found them and opened it anew"
    rest = "; other watches there are well" if alive else ""
    sentence = f"{name} of {names_of(w.apiserver for w in watches)} {what}{rest}."
    return Finding(Cause.STALLED_STREAM, apiserver, name, sure, sentence, frozenset(watch.key for watch in watches))


def _history_short(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """A fact of its own: it explains no lateness."""
    by_name: dict[str, list[Watch]] = defaultdict(list)
    for watch in evidence.watches.values():
        if _is_short_of_history(watch) or watch.expired >= EXPIRED:
            by_name[watch.name].append(watch)
    for name, watches in by_name.items():
        fits = any(peer.reading.history and peer.reading.history.fits for peer in evidence.peers(watches[0]))
        if evidence.several and not fits:
            yield _short_history(None, name, watches)
        else:
            yield from (_short_history(watch.apiserver, name, [watch]) for watch in watches)


def _is_short_of_history(watch: Watch) -> bool:
    return watch.reading.history is not None and watch.reading.history.fits is False


def _short_history(apiserver: str | None, name: str, watches: Sequence[Watch]) -> Finding:
    told = [watch.reading.history for watch in watches if watch.reading.history and _is_short_of_history(watch)]
    if not told:
        count = max(watch.expired for watch in watches)
        sentence = f"The watch of {name} has got 410 Expired {count} times within a minute."
        return Finding(Cause.HISTORY_SHORT, apiserver, name, Confidence.MEDIUM, sentence)
    least = min(told, key=lambda history: history.seconds.upper)
    sure = Confidence.HIGH if least.list_measured else Confidence.MEDIUM
    takes = "takes" if least.list_measured else "would take"
    sentence = (
        f"A client of {name} gets a 410 after {seconds(least.seconds.upper)} away, and a full list {takes} "
        f"{seconds(least.list_seconds or 0.0)}."
    )
    return Finding(Cause.HISTORY_SHORT, apiserver, name, sure, sentence)


def _write_path(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    known: dict[str, Watch] = {}
    for key in sorted(open_):
        watch = evidence.watches[key]
        if watch.creation and watch.creation.events >= max(WRITE_EVENTS, _creations(known.get(watch.name))):
            known[watch.name] = watch
    slow = {name: one.creation.seconds for name, one in known.items() if one.creation}
    slow = {name: late for name, late in slow.items() if late >= WRITE_SECONDS}
    well = not any(one.troubled for one in _asked(evidence)) and not _known_late(evidence.watches.values())
    names = [None] if len(slow) > 1 and len(slow) == len(known) else [*slow]
    for name in names:
        late = max(slow.values()) if name is None else slow[name]
        sure = Confidence.HIGH if well and late >= SURELY_WRITE_SECONDS else Confidence.MEDIUM
        sentence = (
            f"New {name or names_of(slow)} are committed {seconds(late)} after they were stamped (P50)"
            f"{', and what follows is prompt' if well else ''}."
        )
        yield Finding(Cause.WRITE_PATH, None, name, sure, sentence)


def _creations(watch: Watch | None) -> int:
    return watch.creation.events + 1 if watch and watch.creation else 0


def _unknown(evidence: Evidence, open_: Collection[Key]) -> Iterator[Finding]:
    late = [
        watch
        for key, watch in evidence.watches.items()
        if key in open_ and watch.lateness and watch.lateness >= UNKNOWN_SHARE * watch.threshold
    ]
    if late:
        where = names_of(watch.apiserver for watch in late)
        sentence = f"{worst_of(late)} at {where}, and no cause that has a name fits; {ticks_of(_asked(evidence))}."
        yield Finding(Cause.UNKNOWN, None, None, Confidence.LOW, sentence, frozenset(watch.key for watch in late))


TABLE = (
    Row(
        Cause.MONITOR_OVERLOADED,
        _monitor_overloaded,
        "Give watchslo more CPU, or fewer watches; see watchslo_loop_lag_seconds, and "
        "container_cpu_cfs_throttled_periods_total of its container.",
    ),
    Row(
        Cause.STORAGE_SLOW,
        _storage_slow,
        "Look at etcd: etcd_disk_wal_fsync_duration_seconds, etcd_network_peer_round_trip_time_seconds, and "
        "etcd_request_duration_seconds of the apiservers. With one apiserver it may be its own link to etcd.",
    ),
    Row(
        Cause.CACHE_BEHIND,
        _apiserver_cut_off,
        "Look at the connection from {apiserver} to etcd: its etcd_request_duration_seconds and the errors in its log.",
    ),
    Row(
        Cause.APISERVER_SENDING,
        _apiserver_gone,
        "Look whether {apiserver} runs, and at the way to it: its log, its CPU and memory, its /livez.",
    ),
    Row(
        Cause.RELIST_STORM,
        _relist_storm,
        'Look who lists at {apiserver}: apiserver_request_total{{verb="LIST"}}, apiserver_current_inflight_requests, '
        "apiserver_flowcontrol_rejected_requests_total, and the user agents in the audit log.",
    ),
    Row(
        Cause.BANDWIDTH,
        _bandwidth,
        "Look at the way from {apiserver} to its clients: load balancers, the bytes a second of its interfaces, its "
        "rest_client and apiserver_watch_events_sizes_sum; many clients may share one connection.",
    ),
    Row(
        Cause.CACHE_BEHIND,
        _cache_behind,
        "Look at the connection from {apiserver} to etcd: its etcd_request_duration_seconds, and "
        "apiserver_watch_cache_read_wait_seconds.",
    ),
    Row(
        Cause.STORAGE_SLOW,
        _storage_late,
        "Look at etcd: etcd_debugging_mvcc_slow_watcher_total and etcd_debugging_mvcc_pending_events_total.",
    ),
    Row(
        Cause.APISERVER_SENDING,
        _apiserver_sending,
        "Look at the CPU and the network of {apiserver}: process_cpu_seconds_total, "
        "apiserver_watch_events_total, and apiserver_terminated_watchers_total.",
    ),
    Row(
        Cause.RESOURCE_DECODING,
        _of_one_resource(Cause.RESOURCE_DECODING, Place.STORAGE, "before they are in its cache"),
        "Look at what is special about {watch}: a storage of its own (--etcd-servers-overrides), a conversion webhook "
        "(apiserver_crd_conversion_webhook_duration_seconds), encryption at rest, large objects.",
    ),
    Row(
        Cause.RESOURCE_FANOUT,
        _of_one_resource(Cause.RESOURCE_FANOUT, Place.CLIENT, "after they are in its cache"),
        "Look at how many clients watch {watch} and how large its events are: apiserver_longrunning_requests, "
        "apiserver_watch_events_sizes, apiserver_watch_cache_events_dispatched_total.",
    ),
    Row(
        Cause.STALLED_STREAM,
        _stalled_stream,
        "Look at what is between here and {apiserver} for connections that were dropped without a word, and at the "
        "watch cache of {watch}: apiserver_watch_cache_events_received_total must move.",
    ),
    Row(
        Cause.HISTORY_SHORT,
        _history_short,
        "Give clients of {watch} a faster start, such as streamed lists: `watchslo rehearse` compares the strategies. "
        "Caches size themselves, within bounds: watch_cache_capacity.",
    ),
    Row(
        Cause.WRITE_PATH,
        _write_path,
        "Look at validating admission and at the storage's writes: "
        "apiserver_admission_webhook_admission_duration_seconds, etcd_request_duration_seconds.",
    ),
    Row(
        Cause.UNKNOWN,
        _unknown,
        "Compare the hops in the status, and ask for `hops: true` where they are missing.",
    ),
)
