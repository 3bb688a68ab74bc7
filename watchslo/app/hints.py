"""What looks odd about a measurement, and what to do about it: sentences for people, none where all is well."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from watchslo.app.table import Line
from watchslo.history.judgement import Verdict
from watchslo.history.words import duration
from watchslo.snapshot import Snapshot, StreamReading
from watchslo.watch.audit import Verdict as Audit
from watchslo.watch.failure import Reason

TAINTED_SHARE = 0.1  # of the events of a watch, or of the time: more than a hiccup
NAMED = 4  # watches in one sentence
LONGEST_SECONDS = 300.0  # that `check` may be told to measure
ALWAYS_BUSY = "leases.coordination.k8s.io"  # beats on every cluster that has nodes


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement: all readings at its end, the lines made of them, and for how many seconds it went on."""

    snapshot: Snapshot
    lines: Sequence[Line]
    seconds: float
    min_events: int


def hints(measured: Measured) -> list[str]:
    """A sentence for each thing that is odd."""
    return [sentence for look in LOOKS for sentence in look(measured)]


def overloaded(measured: Measured) -> Iterator[str]:
    """This machine, not the apiserver, was late."""
    tainted = measured.snapshot.monitor.tainted_seconds
    if tainted > TAINTED_SHARE * measured.seconds or any(map(_is_tainted, measured.snapshot.streams)):
        yield (
            f"This machine was too busy for {duration(tainted)}, and what arrived then is left out: "
            "end what keeps its processor busy, or measure from another one."
        )


def _is_tainted(stream: StreamReading) -> bool:
    return stream.track.unmeasured.get("tainted", 0) > TAINTED_SHARE * max(1, sum(stream.events.values()))


def forbidden(measured: Measured) -> Iterator[str]:
    """Rights are missing, or nobody knows who we are."""
    refused = [stream for stream in measured.snapshot.streams if not stream.up and stream.last_failure]
    if names := _of(refused, Reason.FORBIDDEN):
        yield f"This identity may not list and watch {names}: grant it these two verbs, or name others by --resource."
    if names := _of(refused, Reason.UNAUTHORIZED):
        yield f"The credentials were refused for {names}: renew them, as kubectl would need it too."


def _of(streams: Iterable[StreamReading], reason: Reason) -> str:
    return _named(stream.watch for stream in streams if stream.last_failure and stream.last_failure.reason == reason)


def stalled(measured: Measured) -> Iterator[str]:
    """Events are withheld, so what was measured says nothing of now."""
    for stream in measured.snapshot.streams:
        if stream.stalled_for is None:
            continue
        where = (
            "the apiserver's cache of it is stuck"
            if stream.audit == Audit.FROZEN
            else "look at the connection, and what is between here and the apiserver"
        )
        yield f"{stream.watch} has told nothing of what happened for {duration(stream.stalled_for)}: {where}."


def unclocked(measured: Measured) -> Iterator[str]:
    """Revisions say nothing, or not yet, of when a change was committed."""
    for apiserver in measured.snapshot.apiservers:
        if apiserver.unproven:
            yield f"Unproven: {apiserver.unproven}."
    open_ones = [stream for stream in measured.snapshot.streams if stream.up]
    if names := _named(stream.watch for stream in open_ones if stream.membership == "pending"):
        yield f"It is not known yet whether the clock's revisions are those of {names}: measure for longer."
    if names := _named(stream.watch for stream in open_ones if stream.membership == "unparsable"):
        yield f"The revisions of {names} are no numbers, so nobody can tell when they were committed."


def quiet(measured: Measured) -> Iterator[str]:
    """Where nothing changes, nothing is late."""
    names = _named(line.watch for line in measured.lines if line.up and not line.events and line.stalled_for is None)
    if names and any(line.events for line in measured.lines):
        yield f"Nothing happened to {names}, and only what happens is measured."
    elif names:
        yield f"Nothing happened to {names}: name what changes, such as --resource {ALWAYS_BUSY}."


def few_events(measured: Measured) -> Iterator[str]:
    """Neither proof nor enough events for an estimate."""
    if names := _named(line.watch for line in measured.lines if line.verdict is Verdict.FEW_EVENTS):
        remedy = "measure for longer, up to --duration 5m" if measured.seconds < LONGEST_SECONDS else "name busier ones"
        yield f"There were less than {measured.min_events} events of {names}, too few for a verdict: {remedy}."


def uncertain(measured: Measured) -> Iterator[str]:
    """The threshold lies within the proven bounds, or the figure below what can be told apart."""
    judged = [line for line in measured.lines if line.verdict in (Verdict.WITHIN, Verdict.BEYOND) and line.p99]
    if names := _named(line.watch for line in judged if line.p99 and line.p99.lower <= line.threshold < line.p99.upper):
        yield (
            f"The verdict on {names} is an estimate and no proof, because the threshold lies between the bounds: "
            "more events, or a shorter clock.interval, bring them together."
        )
    trips = [domain.median_round_trip for domain in measured.snapshot.domains if domain.median_round_trip]
    if names := _named(line.watch for line in judged if line.p99 and not line.p99.resolved):
        trip = f" of {duration(max(trips))}" if trips else ""
        yield (
            f"The P99 of {names} is less than the round trip{trip} to the apiserver, which is all that can be seen "
            "from here: measure from within the cluster to know it better."
        )


LOOKS: tuple[Callable[[Measured], Iterator[str]], ...] = (
    overloaded,
    forbidden,
    stalled,
    unclocked,
    quiet,
    few_events,
    uncertain,
)
"""Each finds one kind of thing; the gravest first."""


def _named(watches: Iterable[str]) -> str:
    """The watches, each once; of many only some."""
    names = sorted(dict.fromkeys(watches))
    if len(names) > NAMED:
        return f"{', '.join(names[: NAMED - 1])} and {len(names) - NAMED + 1} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
