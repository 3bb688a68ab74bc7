import asyncio

import structlog

from tests.unit.monitor.cluster import Log, because_of
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.watch.failure import Reason


async def test_failures_are_logged_once_counted_and_resolved(log: Log) -> None:
    failures = FailureLog(structlog.get_logger().bind(watch="pods"))
    for reason in (Reason.REFUSED, Reason.TIMEOUT, Reason.REFUSED, Reason.TIMEOUT, Reason.REFUSED):
        failures.record("watch_closed", because_of(reason), after_s=1.0)
        await asyncio.sleep(1)
    failures.resolve()
    failures.resolve()
    first, second = log.of("watch_closed")
    assert (first["reason"], second["reason"]) == ("refused", "timeout")
    assert first["watch"] == "pods"
    assert first["after_s"] == 1.0
    assert log.of("recovered") == [
        {"watch": "pods", "event": "recovered", "reason": "refused", "failures": 5, "after_s": 5.0}
    ]


async def test_failure_lasts_until_it_is_resolved() -> None:
    failures = FailureLog(structlog.get_logger())

    def reasons() -> list[str | None]:
        return [failure.reason if failure else None for failure in (failures.now, failures.latest)]

    assert reasons() == [None, None]
    failures.record("list_failed", because_of(Reason.DNS))
    assert reasons() == ["dns", "dns"]
    failures.resolve()
    assert reasons() == [None, "dns"]


async def test_failure_after_recovery_is_logged_again(log: Log) -> None:
    failures = FailureLog(structlog.get_logger())
    for _ in range(2):
        failures.record("list_failed", because_of(Reason.DNS))
        failures.resolve()
    assert log.events == ["list_failed", "recovered"] * 2
    assert [entry["failures"] for entry in log.of("recovered")] == [1, 1]


async def test_usual_closes_are_not_failures(log: Log) -> None:
    failures = FailureLog(structlog.get_logger())
    for reason in (Reason.DEADLINE, Reason.SHUTDOWN):
        failures.record("watch_closed", because_of(reason))
    assert failures.latest is None
    failures.resolve()
    assert log.events == ["watch_closed", "watch_closed"]
