"""The feed, as those who read it see it: from several loops, late, slow, and after it has ended."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
import structlog
from starlette.requests import Request
from starlette.types import Message
from structlog.testing import CapturingLogger

from tests.unit.serve import readings
from watchslo.serve import feed as feeding
from watchslo.serve import update
from watchslo.serve.feed import KEPT, EventStream, Feed
from watchslo.serve.verdicts import Verdict
from watchslo.snapshot import Snapshot

RETRY = b"retry: 2000\n\n"


def at(number: int, **changes: object) -> Snapshot:
    return replace(readings.SNAPSHOT, at_wall=readings.SNAPSHOT.at_wall + 5 * number, **changes)  # type: ignore[arg-type]


@pytest.fixture
async def feed() -> AsyncIterator[Feed]:
    made = Feed()
    yield made
    made.close()


async def anybody() -> bool:
    return True


async def observed(feed: Feed, *snapshots: Snapshot) -> None:
    for snapshot in snapshots:
        feed.observe(snapshot)
        await feed.ask(lambda _: None)  # after what was observed


def parsed(event: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = dict(line.split(": ", 1) for line in event.decode().strip().splitlines())
    return fields | {"data": json.loads(fields["data"])}


async def following(feed: Feed, count: int, last_id: str = "") -> list[dict[str, Any]]:
    """The first events that somebody is told."""
    async with aclosing(feed.follow(last_id, anybody)) as events:
        assert await anext(events) == RETRY
        return [parsed(await anext(events)) for _ in range(count)]


async def test_tells_all_and_then_what_changes(feed: Feed) -> None:
    await observed(feed, at(0))
    async with aclosing(feed.follow("", anybody)) as events:
        await anext(events)
        whole = parsed(await anext(events))
        louder = replace(readings.TAIL, bookmarks=8, bookmark_age=1.0)
        await observed(feed, at(1, streams=(louder, readings.STALLED)))
        then = parsed(await anext(events))
    assert [whole["event"], then["event"]] == ["full", "delta"]
    assert {watch["key"] for watch in whole["data"]["watches"]} == {
        "pods@service",
        'my "deploy\\ments"@10.0.0.1:6443',
        "jobs@service",
    }
    assert [watch["key"] for watch in then["data"]["watches"]] == ["pods@service"]
    assert then["data"]["gone"] == ['my "deploy\\ments"@10.0.0.1:6443']
    assert whole["data"]["day"]["minutes"] == "0" * 1440
    assert then["data"]["day"] is None
    update.Update.model_json_schema(mode="serialization")


async def test_waits_for_the_first_evaluation(feed: Feed) -> None:
    waiting = asyncio.create_task(following(feed, 1))
    await asyncio.sleep(0)
    await observed(feed, at(0))
    assert (await waiting)[0]["event"] == "full"


async def test_goes_on_where_somebody_was(feed: Feed) -> None:
    await observed(feed, at(0), at(1))
    (whole,) = await following(feed, 1)
    await observed(feed, at(2), at(3))
    again = await following(feed, 2, whole["id"])
    assert [one["event"] for one in again] == ["delta", "delta"]
    assert [one["data"]["at"][17:19] for one in again] == ["31", "36"]


@pytest.mark.parametrize("last_id", ["nonsense", "0badcafe-1", "-", "1-1-1"])
async def test_begins_anew_for_who_comes_from_elsewhere(feed: Feed, last_id: str) -> None:
    await observed(feed, at(0))
    assert (await following(feed, 1, last_id))[0]["event"] == "full"


async def test_begins_anew_for_who_was_away_for_long(feed: Feed) -> None:
    await observed(feed, at(0))
    (whole,) = await following(feed, 1)
    await observed(feed, *(at(number) for number in range(1, KEPT + 2)))
    assert (await following(feed, 1, whole["id"]))[0]["event"] == "full"


async def test_sends_away_who_reads_too_slowly(feed: Feed) -> None:
    await observed(feed, at(0))
    async with aclosing(feed.follow("", anybody)) as events:
        await anext(events), await anext(events)
        await observed(feed, *(at(number) for number in range(1, KEPT + 2)))
        assert [event async for event in events] == []


async def test_says_now_and_then_that_it_lives(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "HEARTBEAT_SECONDS", 0.0)
    async with aclosing(feed.follow("", anybody)) as events:
        await anext(events)
        assert await anext(events) == b":\n\n"


async def test_asks_before_each_event_whether_it_may_be_told(feed: Feed) -> None:
    await observed(feed, at(0), at(1))
    (whole,) = await following(feed, 1)
    await observed(feed, at(2), at(3), at(4))
    verdicts = [True, True, False]

    async def allowed() -> bool:
        return verdicts.pop(0)

    told = [event async for event in feed.follow(whole["id"], allowed)]
    assert [parsed(event)["data"]["at"][17:19] for event in told[1:]] == ["31", "36"]
    assert not verdicts
    assert not feed._readers


async def test_ends_with_the_daemon(feed: Feed) -> None:
    async def all_of_it() -> list[bytes]:
        return [event async for event in feed.follow("", anybody)]

    reading = asyncio.create_task(all_of_it())
    await asyncio.sleep(0)
    feed.close()
    assert await reading == [RETRY]
    feed.observe(at(0))  # one last evaluation hurts nobody


async def test_a_failure_leaves_a_hole_and_is_said(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(structlog, "get_logger", lambda: log)
    await observed(feed, replace(readings.SNAPSHOT, streams=None), at(0))  # type: ignore[arg-type]
    assert [call.args for call in log.calls] == [("history_failed",)]
    assert feed.account is not None


async def test_one_encoding_is_for_all(feed: Feed) -> None:
    await observed(feed, at(0))
    told = []
    for _ in range(2):
        async with aclosing(feed.follow("", anybody)) as events:
            await anext(events)
            told.append(await anext(events))
    assert told[0] is told[1]


class Door:
    """One who asks for the stream by ASGI; `stuck` takes nothing after the first event."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.sent: list[Message] = []
        self.begun, self.gone = asyncio.Event(), asyncio.Event()
        self._stuck = stuck

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self._stuck and "body" in message:
            await asyncio.Event().wait()
        self.sent.append(message)
        if "body" in message:
            self.begun.set()

    async def answer(self, feed: Feed, method: str = "GET") -> None:
        await EventStream(feed.follow("", anybody))({"type": "http", "method": method}, self.receive, self.send)


async def test_the_stream_ends_when_its_reader_leaves(feed: Feed) -> None:
    door = Door()
    answering = asyncio.create_task(door.answer(feed))
    await door.begun.wait()
    door.gone.set()
    await answering
    assert not feed._readers


async def test_the_stream_ends_when_nobody_takes_it(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "SEND_SECONDS", 0.0)
    door = Door(stuck=True)
    await door.answer(feed)
    assert not feed._readers


async def test_a_mistake_is_not_hidden() -> None:
    async def events() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        raise LookupError

    door = Door()
    with pytest.raises(LookupError):
        await EventStream(events())({"type": "http", "method": "GET"}, door.receive, door.send)


async def test_a_head_has_no_body(feed: Feed) -> None:
    door = Door()
    await door.answer(feed, "HEAD")
    assert [message["type"] for message in door.sent] == ["http.response.start", "http.response.body"]
    assert dict(door.sent[0]["headers"])[b"content-type"] == b"text/event-stream; charset=utf-8"


async def test_the_stream_ends_in_order_with_the_right_to_it(feed: Feed) -> None:
    await observed(feed, at(0))
    verdicts = [Verdict.ALLOWED, Verdict.FORBIDDEN]
    asked: list[tuple[str, str]] = []

    async def authorize(token: str, path: str) -> Verdict:
        asked.append((token, path))
        return verdicts.pop(0)

    (route,) = feeding.routes(feed, authorize)
    scope = {"type": "http", "method": "GET", "headers": [(b"authorization", b"Bearer secret")]}
    door = Door()
    stream = await route.endpoint(Request(scope))
    await stream(scope, door.receive, door.send)
    _, retry, full, end = door.sent
    assert (retry["body"], parsed(full["body"])["event"]) == (RETRY, "full")
    assert (end["body"], "more_body" in end) == (b"", False)
    assert asked == [("secret", "/")] * 2


async def test_there_is_room_for_so_many_only(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "READERS", 1)
    async with aclosing(feed.follow("", anybody)) as events:
        await anext(events)
        before = feed.crowded
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        assert (before, feed.crowded) == (False, True)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("jobs.batch", ["jobs"]),
        ("jobs", ["jobs"]),
        (None, ["pods", 'my "deploy\\ments"', "jobs"]),
        ("things", []),
    ],
)
async def test_the_series_has_the_watches_that_were_asked_for(feed: Feed, asked: str | None, found: list[str]) -> None:
    await observed(feed, at(0))
    series = await feed.ask(lambda chronicle: update.series(chronicle, asked, 60.0, 5.0))
    assert [watch.watch for watch in series.watches] == found


async def test_the_series_has_what_was(feed: Feed) -> None:
    await observed(feed, at(0), at(1))
    (pods,) = (await feed.ask(lambda chronicle: update.series(chronicle, "pods", 60.0, 5.0))).watches
    assert pods.at == [1_700_000_001.0, 1_700_000_006.0]
    assert (pods.p99, pods.upper, pods.events) == ([0.0625, 0.0625], [None, None], [120, 120])
    (pods,) = (await feed.ask(lambda chronicle: update.series(chronicle, "pods", 3.0, 5.0))).watches
    assert pods.at == [1_700_000_006.0]
