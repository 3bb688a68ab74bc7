import asyncio

import structlog

from tests.unit.monitor.cluster import Log, because_of
from watchslo.monitor.trouble import Trouble
from watchslo.watch.failure import Reason


async def test_is_said_once_counted_and_said_to_be_over(log: Log) -> None:
    trouble = Trouble(structlog.get_logger().bind(watch="pods"))
    for reason in (Reason.REFUSED, Reason.TIMEOUT, Reason.REFUSED, Reason.TIMEOUT, Reason.REFUSED):
        trouble.happened("watch_closed", because_of(reason), after_s=1.0)
        await asyncio.sleep(1)
    trouble.over()
    trouble.over()
    first, second = log.of("watch_closed")
    assert (first["reason"], second["reason"]) == ("refused", "timeout")
    assert first["watch"] == "pods"
    assert first["after_s"] == 1.0
    assert log.of("recovered") == [
        {"watch": "pods", "event": "recovered", "reason": "refused", "failures": 5, "after_s": 5.0}
    ]


async def test_lasts_until_it_is_over() -> None:
    trouble = Trouble(structlog.get_logger())

    def reasons() -> list[str | None]:
        return [failure.reason if failure else None for failure in (trouble.now, trouble.latest)]

    assert reasons() == [None, None]
    trouble.happened("list_failed", because_of(Reason.DNS))
    assert reasons() == ["dns", "dns"]
    trouble.over()
    assert reasons() == [None, "dns"]


async def test_comes_again(log: Log) -> None:
    trouble = Trouble(structlog.get_logger())
    for _ in range(2):
        trouble.happened("list_failed", because_of(Reason.DNS))
        trouble.over()
    assert log.events == ["list_failed", "recovered"] * 2
    assert [entry["failures"] for entry in log.of("recovered")] == [1, 1]


async def test_what_is_usual_is_none(log: Log) -> None:
    trouble = Trouble(structlog.get_logger())
    for reason in (Reason.DEADLINE, Reason.SHUTDOWN):
        trouble.happened("watch_closed", because_of(reason))
    assert trouble.latest is None
    trouble.over()
    assert log.events == ["watch_closed", "watch_closed"]
