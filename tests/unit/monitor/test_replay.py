"""A watch that reads the past again, against a cluster in memory."""

import asyncio

import pytest

from tests.unit.monitor.cluster import PODS, START_REVISION, Cluster, line
from tests.unit.monitor.inside import config, keep_writing, running
from watchslo.monitor.protocol.replay import TRIES, Replay
from watchslo.monitor.supervisor import Supervisor
from watchslo.snapshot import ReplayReading
from watchslo.watch.failure import Failure, Phase, Reason, because

PAST = 50  # events


@pytest.fixture
def past(cluster: Cluster) -> Cluster:
    """A cluster that had events before the watch begins."""
    cluster.catches_up = True
    for _ in range(PAST):
        cluster.revision += 1
        cluster.history.append((PODS, cluster.revision, line("MODIFIED", cluster.revision)))
    return cluster


@pytest.fixture
def replaying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make supervisors replay the past."""

    def replay(*arguments: object, **more: object) -> Supervisor:
        return Supervisor(*arguments, **more, replay=True)  # type: ignore[arg-type]

    monkeypatch.setattr("tests.unit.monitor.inside.Supervisor", replay)


@pytest.mark.usefixtures("replaying")
async def test_no_event_of_a_replay_is_a_sample(past: Cluster) -> None:
    writing = asyncio.create_task(keep_writing(past, PODS, seconds=60))
    async with running(config("pods"), start=30.0) as run:
        stream = run.stream("pods")
        assert stream.received.changes > PAST + 200
        assert stream.track.timespan.total == 0
        assert not any(stream.track.unmeasured.values())
        assert stream.replay is not None
        assert PAST <= stream.replay.events < PAST + 10
    writing.cancel()


@pytest.mark.usefixtures("replaying")
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
    async with running(config("pods"), start=30.0) as run:
        stream = run.stream("pods")
        assert stream.up
        assert found == [past.revision - 40, past.revision - 35]
        assert stream.received.changes == 35
        assert stream.gaps.revisions == 0
        assert not any(stream.guarantees.violations.values())


@pytest.mark.usefixtures("replaying")
@pytest.mark.parametrize(("reason", "searches"), [(Reason.THROTTLED, TRIES), (Reason.FORBIDDEN, 1)])
async def test_watch_begins_now_if_the_search_fails(past: Cluster, reason: Reason, searches: int) -> None:
    """A reason that may be over soon is worth further searches."""
    past.fail(reason, "headroom")
    async with running(config("pods"), start=30.0) as run:
        stream = run.stream("pods")
        assert stream.up
        assert stream.received.changes == 0
        assert stream.replay == ReplayReading(0, because(reason, phase=Phase.LIST).message)
        assert past.count("headroom") == searches


@pytest.mark.usefixtures("replaying")
async def test_search_waits_for_an_apiserver_that_cannot_be_reached(past: Cluster) -> None:
    past.fail(Reason.REFUSED, "list")
    async with running(config("pods"), start=20.0) as run:
        assert not run.stream("pods").up
        past.fail(None, "list")
        await asyncio.sleep(60.0)
        assert run.stream("pods").received.changes == PAST


@pytest.mark.usefixtures("replaying")
async def test_violations_of_the_past_are_counted_once_the_clock_knows_the_watch(past: Cluster) -> None:
    event = past.history[10][2]
    past.edits["service", event] = event + line("MODIFIED", START_REVISION + 3) + line("MODIFIED", START_REVISION + 4)
    async with running(config("pods"), start=30.0) as run:
        violations = run.stream("pods").guarantees.violations
        assert {name: count for name, count in violations.items() if count} == {"ordered": 2}
