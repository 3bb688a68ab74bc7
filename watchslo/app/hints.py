"""What looks odd about a measurement, and what to do about it: sentences for people, none where all is well."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from watchslo.app.view import Line, View
from watchslo.history.judgement import Verdict
from watchslo.history.words import duration, some_of
from watchslo.watch.audit import Verdict as Audit
from watchslo.watch.failure import Reason

TAINTED_SHARE = 0.1  # of the events of a watch, or of the time: more than a hiccup
LONGEST_SECONDS = 300.0  # that `check` may be told to measure
ALWAYS_BUSY = "leases.coordination.k8s.io"  # beats on every cluster that has nodes
CREDENTIALS = (Reason.FORBIDDEN, Reason.UNAUTHORIZED)

Look = Callable[[View], Iterator[str]]


def unready(view: View) -> list[str]:
    """Why nothing can be said of all watches yet; what keeps a single one away is a trouble."""
    named = tuple(f"{line.name} " for line in view.lines if _is_away(line))
    return [sentence for sentence in view.not_ready if not sentence.startswith(named)]


def troubles(view: View) -> list[str]:
    """A sentence for each thing that is wrong."""
    return [sentence for look in TROUBLES for sentence in look(view)]


def hints(view: View) -> list[str]:
    """The same, and a sentence for each thing that makes a verdict weak, or keeps it from being made."""
    return [*troubles(view), *(sentence for look in DOUBTS for sentence in look(view))]


def overloaded(view: View) -> Iterator[str]:
    """The machine of watchslo, not the apiserver, was late."""
    if view.tainted_seconds > TAINTED_SHARE * view.seconds or any(line.tainted > TAINTED_SHARE for line in view.lines):
        yield (
            f"The machine that measures was too busy for {duration(view.tainted_seconds)}, and what arrived then is "
            "left out: end what keeps its processor busy, or measure from another one."
        )


def forbidden(view: View) -> Iterator[str]:
    """Rights are missing, or nobody knows who we are."""
    if names := _named(line for line in view.lines if _is_away(line) and line.reason == Reason.FORBIDDEN):
        yield f"This identity may not list and watch {names}: grant it these two verbs, or leave these resources out."
    if names := _named(line for line in view.lines if _is_away(line) and line.reason == Reason.UNAUTHORIZED):
        yield f"The credentials were refused for {names}: renew them, as kubectl would need it too."


def closed(view: View) -> Iterator[str]:
    """Anything else keeps watches from being open; what they have in common is said once."""
    why = defaultdict(list)
    for line in view.lines:
        if _is_away(line) and line.reason not in CREDENTIALS:
            why[line.failure].append(line)
    for failure, lines in why.items():
        yield f"Not open: {_named(lines)}. {failure}"


def stalled(view: View) -> Iterator[str]:
    """Events are withheld, so what was measured says nothing of now."""
    for line in view.lines:
        if line.stalled_for is None:
            continue
        where = (
            "the apiserver's cache of it is stuck"
            if line.audit == Audit.FROZEN
            else "look at the connection, and what is between here and the apiserver"
        )
        yield f"{line.name} has told nothing of what happened for {duration(line.stalled_for)}: {where}."


def unclocked(view: View) -> Iterator[str]:
    """Revisions say nothing, or not yet, of when a change was committed."""
    yield from view.unproven
    if names := _named(line for line in view.lines if line.up and line.membership == "pending"):
        yield f"It is not known yet whether the clock's revisions are those of {names}: measure for longer."
    if names := _named(line for line in view.lines if line.up and line.membership == "unparsable"):
        yield f"The revisions of {names} are no numbers, so nobody can tell when they were committed."


def quiet(view: View) -> Iterator[str]:
    """Where nothing changes, nothing is late."""
    names = _named(line for line in view.lines if line.up and not line.events and line.stalled_for is None)
    if names and any(line.events for line in view.lines):
        yield f"Nothing happened to {names}, and only what happens is measured."
    elif names:
        yield f"Nothing happened to {names}: watch what changes, such as {ALWAYS_BUSY}."


def few_events(view: View) -> Iterator[str]:
    """Neither proof nor enough events for an estimate."""
    few = [line for line in view.lines if line.verdict is Verdict.FEW_EVENTS]
    if few:
        fewest = max(line.min_events for line in few)
        longer = view.seconds < LONGEST_SECONDS
        remedy = "measure for longer, up to 5 minutes by check --duration 5m" if longer else "watch busier ones"
        yield f"There were fewer than {fewest} events of {_named(few)}, too few for a verdict: {remedy}."


def uncertain(view: View) -> Iterator[str]:
    """The threshold lies within the proven bounds, or the figure below what can be told apart."""
    judged = [line for line in view.lines if line.verdict in (Verdict.WITHIN, Verdict.BEYOND)]
    if names := _named(line for line in judged if line.p99 and line.p99.lower <= line.threshold < line.p99.upper):
        yield (
            f"The verdict on {names} is an estimate and no proof, because the threshold lies between the bounds: "
            "more events, or a shorter clock.interval, bring them together."
        )
    if names := _named(line for line in judged if line.p99 and not line.p99.resolved):
        trip = f" of {duration(view.round_trip)}" if view.round_trip else ""
        yield (
            f"The P99 of {names} is less than the round trip{trip} to the apiserver, which is all that can be seen "
            "from here: measure from within the cluster to know it better."
        )


TROUBLES: tuple[Look, ...] = (overloaded, forbidden, closed, stalled, unclocked)
DOUBTS: tuple[Look, ...] = (quiet, few_events, uncertain)
"""Each finds one kind of thing; the gravest first."""


def _is_away(line: Line) -> bool:
    return not line.up and line.failure is not None


def _named(lines: Iterable[Line]) -> str:
    """Each once; of many only some; empty for none."""
    names = dict.fromkeys(line.name for line in lines)
    return some_of([*names]) if names else ""
