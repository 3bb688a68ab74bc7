"""What was not known in the period, as sentences."""

from collections.abc import Iterator

from watchslo.report.incident import IncidentReport
from watchslo.report.wording import at, number, share
from watchslo.timeline.day import MINUTE_SECONDS, Minute
from watchslo.timeline.format import counted, duration, some_of
from watchslo.timeline.self_checks import TAINTED_SECONDS

NOTHING_MISSING = "Nothing is missing: every minute and every event was judged."
LOW_COVERAGE = 0.5  # of the minutes of one watch


def unknowns(report: IncidentReport) -> tuple[str, ...]:
    """Return a sentence for each thing that was not known; one that says so if there was none."""
    return tuple(_sentences(report)) or (NOTHING_MISSING,)


def _sentences(report: IncidentReport) -> Iterator[str]:
    yield from report.own.doubts
    if report.known_wall >= report.period.since_wall + MINUTE_SECONDS:
        yield f"Nothing is known before {at(report.known_wall)}."
    if report.own.absent:
        yield f"In {counted(len(report.own.absent), 'minute')} of the period, no instance of watchslo was scraped."
    yield from _minutes(report)
    if (report.own.overloaded_seconds or 0.0) > TAINTED_SECONDS:
        lag = f"{duration(report.own.overloaded_seconds or 0.0)} since {at(report.counted_wall)}"
        yield f"watchslo itself could not keep up for {lag}; events of that time are left out."
    yield from _events(report)
    yield from report.own.notes


def _minutes(report: IncidentReport) -> Iterator[str]:
    judged = report.period.minutes - report.overall.count(Minute.NO_DATA)
    if (missing := report.expected_minutes - judged) > 0:
        yield f"{missing:,} of {counted(report.expected_minutes, 'minute')} have no verdict on any watch."
    if undecided := report.overall.count(Minute.UNDECIDED):
        yield f"In {counted(undecided, 'minute')}, neither the proven bounds nor the times of the ticks decided."
    expected = report.known_minutes
    low = [watch for watch in report.watches if expected and watch.judged_minutes < LOW_COVERAGE * expected]
    if low:
        names = some_of([watch.name for watch in low])
        yield f"Less than half of the minutes were judged for {names}: idle watches have no events to judge."


def _events(report: IncidentReport) -> Iterator[str]:
    unmeasured = sum(watch.events.unmeasured for watch in report.watches)
    measured = sum(watch.events.measured for watch in report.watches)
    uncertain = sum(watch.events.uncertain for watch in report.watches)
    since = f"since {at(report.counted_wall)}"
    if unmeasured:
        part = share(unmeasured, unmeasured + measured)
        yield f"{number(unmeasured, 'event')} {since} could not be measured ({part})."
    if uncertain:
        part = share(uncertain, measured)
        yield f"{number(uncertain, 'event')} {since} ({part}) are neither proven late nor in time."
