"""Problems and doubts of a measurement, as sentences with a remedy; none if the measurement is sound."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from watchslo.app.terminal import Line, View
from watchslo.timeline.condition import WatchVerdict
from watchslo.timeline.format import counted, duration, percentile, some_of
from watchslo.timeline.headline import COARSE_SHARE
from watchslo.watch.audit import AuditResult as Audit
from watchslo.watch.failure import Reason

TAINTED_SHARE = 0.1  # of the events of a watch, or of the time; less does not matter
LONGEST_SECONDS = 300.0  # the longest measurement of `check`
ALWAYS_BUSY = "leases.coordination.k8s.io"  # changes on every cluster with nodes
CREDENTIALS = (Reason.FORBIDDEN, Reason.UNAUTHORIZED)

HintRule = Callable[[View], Iterator[str]]


def unready(view: View) -> list[str]:
    """Return why watchslo is not ready; reasons about a single watch are left to `problems`."""
    named = tuple(f"{line.name} " for line in view.lines if _is_away(line))
    return [sentence for sentence in view.not_ready if not sentence.startswith(named)]


def problems(view: View) -> list[str]:
    """Return a sentence for each problem, the gravest first."""
    return [sentence for rule in PROBLEMS for sentence in rule(view)]


def hints(view: View) -> list[str]:
    """Return the problems, and a sentence for each reason why a verdict is weak or missing."""
    return [*problems(view), *(sentence for rule in DOUBTS for sentence in rule(view))]


def overloaded(view: View) -> Iterator[str]:
    """The machine of watchslo was late, not the apiserver."""
    if view.tainted_seconds > TAINTED_SHARE * view.seconds or any(line.tainted > TAINTED_SHARE for line in view.lines):
        late = f"{duration(view.tainted_seconds)} of {duration(view.seconds)}"
        yield (
            f"This machine was too busy to measure for {late}, and events of that time are left out: stop other "
            "load on it, or measure from another machine."
        )


def forbidden(view: View) -> Iterator[str]:
    """Permissions are missing, or the credentials are not valid."""
    if names := _named(line for line in view.lines if _is_away(line) and line.reason == Reason.FORBIDDEN):
        yield (
            f"This identity may not list and watch {names}: grant it these two verbs (`watchslo rbac` writes the "
            "role), name a namespace in which it may (`--namespace` of `check` and `verify`), or leave these out."
        )
    if names := _named(line for line in view.lines if _is_away(line) and line.reason == Reason.UNAUTHORIZED):
        yield f"The apiserver rejects the credentials for {names}: renew them; kubectl cannot use them either."


def closed(view: View) -> Iterator[str]:
    """Watches are closed for another reason, or can never be measured; each reason is stated once."""
    why = defaultdict(list)
    for line in view.lines:
        if _is_away(line) and line.reason not in CREDENTIALS:
            why[line.failure].append(line)
    for failure, lines in why.items():
        yield f"{'Not open' if lines[0].measurable else 'Set aside'}: {_named(lines)}. {failure}"


def stalled(view: View) -> Iterator[str]:
    """Events are withheld, so the figures say nothing about now."""
    for line in view.lines:
        if line.stalled_for is None:
            continue
        where = (
            "its watch cache in the apiserver is frozen"
            if line.audit == Audit.FROZEN
            else "check the connection, and load balancers on the way to the apiserver"
        )
        yield f"{line.name} has withheld events for {duration(line.stalled_for)}: {where}."


def unclocked(view: View) -> Iterator[str]:
    """Revisions do not show when a change was committed, or not yet."""
    yield from view.unproven
    if names := _named(line for line in view.lines if line.up and line.membership == "pending" and not line.undated):
        yield f"It is not proven yet that the revision clock applies to {names}: measure for longer."
    if names := _named(line for line in view.lines if line.up and not line.measurable):
        yield f"The revisions of {names} are not numbers, so the time of their commits is unknown."


def quiet(view: View) -> Iterator[str]:
    """Resources without changes have no latency."""
    silent = (line for line in view.lines if line.up and not (line.events or line.undated))
    names = _named(line for line in silent if line.stalled_for is None)
    if names and any(line.events or line.undated for line in view.lines):
        yield f"No events for {names}: how late they would be is unknown."
    elif names:
        yield f"No events for {names}: watch a resource that changes, such as {ALWAYS_BUSY}."


def undated(view: View) -> Iterator[str]:
    """Events came, but none of them is a sample: that is not the same as no event."""
    why = defaultdict(list)
    for line in view.lines:
        if line.undated:
            why[line.undated].append(line)
    for reason, lines in why.items():
        came = counted(sum(line.received for line in lines), "event")
        yield f"{came} of {_named(lines)} came, and none was dated: {reason}."


def few_events(view: View) -> Iterator[str]:
    """There is neither proof nor enough events for other evidence."""
    few = [line for line in view.lines if line.verdict is WatchVerdict.FEW_EVENTS]
    if few:
        fewest = max(line.min_events for line in few)
        longer = view.seconds < LONGEST_SECONDS
        remedy = "measure for longer, up to 5 minutes with check --duration 5m" if longer else "watch busier resources"
        yield f"Too few events of {_named(few)} for a verdict, which needs {fewest}: {remedy}."


def undecided(view: View) -> Iterator[str]:
    """The threshold lies between the proven bounds, and the times of the ticks do not decide either."""
    if names := _named(line for line in view.lines if line.verdict is WatchVerdict.UNDECIDED):
        yield (
            f"{names} cannot be judged, because the threshold lies between the proven bounds: ticks were too rare "
            "or too slow for it, or were refused. A shorter clock.interval, or a shorter round trip to the apiserver, "
            "narrows the bounds."
        )


def unresolved(view: View) -> Iterator[str]:
    """The quantile that is judged is below the resolution, and that is no small part of the threshold."""
    judged = [line for line in view.lines if line.verdict in (WatchVerdict.WITHIN, WatchVerdict.BEYOND)]
    below = [line for line in judged if line.judged and not line.judged.resolved]
    coarse = [(line.judged.resolution, line) for line in below if line.judged]
    coarse = [(held, line) for held, line in coarse if held >= COARSE_SHARE * line.threshold]
    if coarse:
        lines, longest = [line for _, line in coarse], max(held for held, _ in coarse)
        yield (
            f"The {percentile(lines[0].quantile)} of {_named(lines)} is less than {duration(longest)}, and cannot be "
            "measured now: watchslo's own requests took as long. Measure from within the cluster, or check etcd."
        )


PROBLEMS: tuple[HintRule, ...] = (overloaded, forbidden, closed, stalled, unclocked)
DOUBTS: tuple[HintRule, ...] = (undated, quiet, few_events, undecided, unresolved)
"""Each rule finds one kind of problem or doubt; the gravest comes first."""


def _is_away(line: Line) -> bool:
    return not line.up and line.failure is not None


def _named(lines: Iterable[Line]) -> str:
    """Return the names, each once, with only some of many; empty for no lines."""
    names = dict.fromkeys(line.name for line in lines)
    return some_of([*names]) if names else ""
