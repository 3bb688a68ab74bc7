"""Why a watch is in its condition, in one sentence, and how sure that is. Pure."""

from collections.abc import Mapping

from watchslo.timeline.condition import Condition, WatchCondition
from watchslo.timeline.format import counted, duration

REFUSED = "refused"  # the reason of a failure to connect
INITIAL = "initial"  # an event of a list: nothing to measure
NO_SAMPLE = {
    "before_clock": "committed before the first tick",
    "domain": "of another revision sequence",
    "pending": "not known in time to be of this revision sequence",
    "tainted": "watchslo was late to read them",
    "own_queue": "committed while the watch waited for a limit, a right or credentials of watchslo",
    "unsealed": "no tick came in time",
    "unparsable": "the revision is not a number below 2^62",
}
"""Why events are not samples, by the reasons of the metrics."""

CONFIDENCE = "95%"
"""Of verdicts by the times of the ticks, which decide if the proven bounds do not."""


def labelled(condition: str, upper: float | None, threshold: float) -> str:
    """Return the condition, marked if it is `within` although the proven `upper` bound exceeds the threshold.

    None is an infinite bound.
    """
    is_proven = upper is not None and upper <= threshold
    return condition if is_proven or condition != Condition.WITHIN else f"{condition} ({CONFIDENCE})"


def explanation(line: WatchCondition) -> str:
    """Return what decides the condition of a watch."""
    return _SENTENCES[line.condition](line)


def _within(line: WatchCondition) -> str:
    few = f"at most {_allowed(line)} of the events took longer than {_threshold(line)}"
    upper = line.judged.upper if line.judged else None
    if labelled(line.condition, upper, line.watch.track.objective.threshold) == line.condition:
        return f"{few.capitalize()}: this is proven."
    return (
        f"The proven bounds do not decide, but the times of the ticks show with {CONFIDENCE} confidence that {few}. "
        "The estimate is no part of the verdict."
    )


def _late(line: WatchCondition) -> str:
    return f"More than {_allowed(line)} of the events took longer than {_threshold(line)}: this is proven."


def _undecided(line: WatchCondition) -> str:
    return (
        f"The threshold of {_threshold(line)} is between the proven bounds, and the times of the ticks do not decide."
    )


def _few_events(line: WatchCondition) -> str:
    least = line.watch.track.objective.min_events
    return f"The proven bounds do not decide, and any other verdict needs {counted(least, 'event')}."


def _idle(_: WatchCondition) -> str:
    return "No event came, and an audit proved that there was none to deliver."


def why_undated(unmeasured: Mapping[str, int], membership: str, clock: str | None) -> str:
    """Return why no event of a watch is a sample: the reason of most, or why its `clock` does not tick."""
    lost = {reason: count for reason, count in unmeasured.items() if count and reason != INITIAL}
    if lost:
        most = max(lost, key=lambda reason: lost[reason])
        return NO_SAMPLE.get(most, most)
    if clock:
        return f"the revision clock does not tick. {clock.rstrip('.')}"
    if membership == "pending":
        return "it is not proven yet that the revision clock applies to them; measure for longer"
    return "no tick followed them yet"


def _not_measured(line: WatchCondition) -> str:
    failure = line.watch.session.last_failure
    if failure and not line.watch.measurable:
        return f"The resource is set aside. {failure.message}"
    return f"No event of the last {duration(line.window.length)} was measured."


def _stalled(line: WatchCondition) -> str:
    return f"The watch is open, but has withheld events for {duration(line.watch.audit.stalled_for or 0.0)}."


def _closed(line: WatchCondition) -> str:
    failure = line.watch.session.last_failure
    return f"The watch is not open. {failure.message if failure else ''}".rstrip()


def _unresponsive(line: WatchCondition) -> str:
    failure = line.watch.session.last_failure
    does = "refuses connections" if failure and failure.reason == REFUSED else "answers nothing"
    return f"The apiserver {does}, so no event of this watch can arrive."


def _connected(_: WatchCondition) -> str:
    return "The watch is open, and no event of the last minute is proven late; without quantiles no more is known."


def _threshold(line: WatchCondition) -> str:
    return duration(line.watch.track.objective.threshold)


def _allowed(line: WatchCondition) -> str:
    """Return the share of events that may be late: `1%`."""
    return f"{100 - 100 * line.watch.track.objective.quantile:.6g}%"


_SENTENCES = {
    Condition.WITHIN: _within,
    Condition.LATE: _late,
    Condition.UNDECIDED: _undecided,
    Condition.FEW_EVENTS: _few_events,
    Condition.IDLE: _idle,
    Condition.NOT_MEASURED: _not_measured,
    Condition.STALLED: _stalled,
    Condition.CLOSED: _closed,
    Condition.UNRESPONSIVE: _unresponsive,
    Condition.CONNECTED: _connected,
}
