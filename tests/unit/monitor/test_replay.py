"""A watch that reads the past again, where the past changes under it; `golden/monitor/replays.txt` has the rest."""

import pytest

from tests.unit.monitor.cluster import PODS, START_REVISION, Cluster, line
from tests.unit.monitor.inside import config, running
from watchslo.monitor.protocol.replay import Replay
from watchslo.watch.failure import Failure

PAST = 50  # events


@pytest.fixture
def past(cluster: Cluster) -> Cluster:
    """A cluster that had events before the watch begins."""
    cluster.catches_up = True
    for _ in range(PAST):
        cluster.revision += 1
        cluster.history.append((PODS, cluster.revision, line("MODIFIED", cluster.revision)))
    return cluster


async def test_oldest_revision_that_expires_before_the_watch_is_found_again(
    past: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    find = Replay.find

    async def find_and_expire(self: Replay, known: int | None) -> int | Failure:
        begin = await find(self, known)
        assert isinstance(begin, int)
        found.append(begin)
        if len(found) == 1:
            past.oldest += 5
        return begin

    past.oldest = past.revision - 40
    monkeypatch.setattr(Replay, "find", find_and_expire)
    async with running(config("pods"), start=30.0, replay=True) as run:
        stream = run.stream("pods")
        assert stream.up
        assert found == [past.revision - 40, past.revision - 35]
        assert stream.received.changes == 35
        assert stream.gaps.revisions == 0
        assert not any(stream.guarantees.violations.values())


async def test_violations_of_the_past_are_counted_once_the_clock_knows_the_watch(past: Cluster) -> None:
    event = past.history[10][2]
    past.edits["service", event] = event + line("MODIFIED", START_REVISION + 3) + line("MODIFIED", START_REVISION + 4)
    async with running(config("pods"), start=30.0, replay=True) as run:
        violations = run.stream("pods").guarantees.violations
        assert {name: count for name, count in violations.items() if count} == {"ordered": 2}
