"""Findings about ticks, wall clocks and the order of revisions."""

from collections.abc import Callable

from tests.unit.app.doctor.shown import findings_transcript
from watchslo.app.doctor.clocks import ClockResult, OrderResult, clock_findings, order_findings, order_of
from watchslo.model import Interval, Reading
from watchslo.watch.failure import Failure, Reason, because


def ticking(*trips: float, offset: Interval | None = None, failure: Failure | None = None) -> ClockResult:
    ticks = [Reading("events", float(n), n + trip, n, "a") for n, trip in enumerate(trips)]
    return ClockResult("a", ticks, failure, offset)


def read(revision: int, apiserver: str = "a", resource: str = "pods") -> Reading:
    return Reading(resource, 0.0, 0.1, revision, apiserver)


TIMEOUT = because(Reason.TIMEOUT)
FAILED = {
    ("a", "odd"): because(Reason.UNPARSABLE),
    ("b", "odd"): because(Reason.UNPARSABLE),
    ("a", "secrets"): because(Reason.FORBIDDEN),
}
CLOCKS = {
    "ticks of 10 ms, 20 ms and 9 s": ticking(0.01, 0.02, 9.0),
    "ticks of a quarter of the threshold": ticking(0.25),
    "ticks of 260 ms": ticking(0.26),
    "ticks just below the threshold": ticking(0.999),
    "ticks as long as the threshold": ticking(1.0),
    "a tick, then a failure": ticking(0.01, failure=because(Reason.FORBIDDEN)),
    "no tick at all": ticking(failure=TIMEOUT),
    "a wall clock that may be ours": ticking(0.01, offset=Interval(-0.4, 0.5)),
    "a wall clock that may be less than a second ahead": ticking(0.01, offset=Interval(0.9, 1.5)),
    "a wall clock of which little is known": ticking(0.01, offset=Interval(-9.0, 9.0)),
    "a wall clock that is ahead": ticking(0.01, offset=Interval(1.1, 1.5)),
    "a wall clock that is behind": ticking(0.01, offset=Interval(-3.0, -2.0)),
}
ORDERS = {
    "two resources in one sequence": OrderResult({"a": ["pods", "nodes"]}, {}),
    "two apiservers, and a resource of both": OrderResult({"a": ["pods", "nodes"], "b": ["pods"]}, {}),
    "a foreign resource": OrderResult({"a": ["pods"]}, {"a": ["metrics"]}),
    "a foreign apiserver": OrderResult({"a": ["pods"]}, {"b": ["pods", "nodes"]}),
    "a foreign apiserver, of which one resource is read": OrderResult({"a": ["pods"]}, {"b": ["pods"]}),
    "unparsable and unread resources": OrderResult({}, {}, ["odd"], ["secrets", "pods"]),
    "nothing is read": OrderResult({}, {}),
    **{
        f"revision {revision} between the ticks 10 and 12": order_of(
            read(10), {("a", "pods"): read(revision)}, read(12)
        )
        for revision in (9, 10, 11, 12, 13)
    },
    "reads fail": order_of(read(1), FAILED, read(1)),
    "the first tick is missing": order_of(TIMEOUT, {("a", "pods"): read(99)}, read(10)),
    "the last tick is missing": order_of(read(10), {("a", "pods"): read(99)}, TIMEOUT),
}


def test_findings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    clocks = {name: clock_findings([report], 1.0) for name, report in CLOCKS.items()}
    orders = {name: order_findings(report) for name, report in ORDERS.items()}
    golden("doctor/clocks.txt", findings_transcript(clocks | orders))
