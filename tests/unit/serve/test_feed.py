"""The feed as readers see it: from several loops, late, slow, and after it was closed."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import structlog
from starlette.requests import Request
from starlette.types import Message
from structlog.testing import CapturingLogger

from tests.unit.serve import readings
from watchslo.api.feed import SeriesDocument, Update
from watchslo.api.part import decode
from watchslo.serve import feed as feeding
from watchslo.serve import update
from watchslo.serve.auth import Bearer
from watchslo.serve.auth_cache import AccessDecision
from watchslo.serve.feed import KEPT, EventStream, Feed
from watchslo.snapshot import OverallVerdict, Snapshot

CLIENT = "10.0.0.9"
RETRY = b"retry: 2000\n\n"


def at(number: int, **changes: object) -> Snapshot:
    return replace(readings.SNAPSHOT, at_wall=readings.SNAPSHOT.at_wall + 5 * number, **changes)  # type: ignore[arg-type]


@pytest.fixture
async def feed() -> AsyncIterator[Feed]:
    made = Feed()
    yield made
    made.close()


async def always() -> bool:
    return True


async def observed(feed: Feed, *snapshots: Snapshot) -> None:
    for snapshot in snapshots:
        feed.observe(snapshot)
        await feed.ask(CLIENT, lambda _: None)  # runs after the observation


def parsed(event: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = dict(line.split(": ", 1) for line in event.decode().strip().splitlines())
    return fields | {"data": json.loads(fields["data"])}


async def following(feed: Feed, count: int, last_id: str = "") -> list[dict[str, Any]]:
    """Return the first events of a new reader."""
    async with aclosing(feed.follow(CLIENT, last_id, always)) as events:
        assert await anext(events) == RETRY
        return [parsed(await anext(events)) for _ in range(count)]


async def test_feed_sends_full_then_delta(feed: Feed) -> None:
    await observed(feed, at(0))
    async with aclosing(feed.follow(CLIENT, "", always)) as events:
        await anext(events)
        whole = parsed(await anext(events))
        louder = readings.changed(readings.TAIL, received={"bookmarks": 8, "bookmark_age": 1.0})
        await observed(feed, at(1, watches=(louder, readings.STALLED)))
        then = parsed(await anext(events))
    assert [whole["event"], then["event"]] == ["full", "delta"]
    assert {watch["key"] for watch in whole["data"]["watches"]} == {
        "pods@service",
        'my "deploy\\ments"@10.0.0.1:6443',
        "jobs@service",
    }
    (pods,) = then["data"]["watches"]
    assert (pods["key"], pods["caption"], pods["bad"]) == (
        "pods@service",
        "within (95%) · 62.5 ms · proven 10 ms to ∞",
        False,
    )
    assert (pods["cells"][0], pods["cells"][12]) == ("pods", "1 s")
    assert then["data"]["gone"] == ['my "deploy\\ments"@10.0.0.1:6443']
    assert whole["data"]["day"]["minutes"] == "0" * 1440
    assert then["data"]["day"] is None
    assert msgspec.json.encode(decode(msgspec.json.encode(whole["data"]), Update)) == msgspec.json.encode(whole["data"])


async def test_feed_waits_for_first_evaluation(feed: Feed) -> None:
    waiting = asyncio.create_task(following(feed, 1))
    await asyncio.sleep(0)
    await observed(feed, at(0))
    assert (await waiting)[0]["event"] == "full"


async def test_feed_resumes_after_last_event_id(feed: Feed) -> None:
    await observed(feed, at(0), at(1))
    (whole,) = await following(feed, 1)
    await observed(feed, at(2), at(3))
    again = await following(feed, 2, whole["id"])
    assert [one["event"] for one in again] == ["delta", "delta"]
    assert [one["data"]["at"][17:19] for one in again] == ["31", "36"]


@pytest.mark.parametrize("last_id", ["nonsense", "0badcafe-1", "-", "1-1-1"])
async def test_feed_with_unknown_event_id_sends_full(feed: Feed, last_id: str) -> None:
    await observed(feed, at(0))
    assert (await following(feed, 1, last_id))[0]["event"] == "full"


async def test_feed_with_too_old_event_id_sends_full(feed: Feed) -> None:
    await observed(feed, at(0))
    (whole,) = await following(feed, 1)
    await observed(feed, *(at(number) for number in range(1, KEPT + 2)))
    assert (await following(feed, 1, whole["id"]))[0]["event"] == "full"


@pytest.mark.parametrize(("size", "kept"), [(4.5, 4), (0.0, 2)])
async def test_feed_keeps_a_limited_size_of_deltas(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, size: float, kept: int
) -> None:
    await observed(feed, at(0), at(1))
    monkeypatch.setattr(feeding, "KEPT_BYTES", size * len(feed._frames[-1].delta))
    await observed(feed, *(at(number) for number in range(2, 8)))
    assert len(feed._frames) == kept
    place = feed._frames[0].number
    assert (await following(feed, 1, f"{feed._run}-{place}"))[0]["event"] == "delta"
    assert (await following(feed, 1, f"{feed._run}-{place - 1}"))[0]["event"] == "full"


async def test_feed_ends_for_reader_that_is_too_slow(feed: Feed) -> None:
    await observed(feed, at(0))
    async with aclosing(feed.follow(CLIENT, "", always)) as events:
        await anext(events), await anext(events)
        await observed(feed, *(at(number) for number in range(1, KEPT + 2)))
        assert [event async for event in events] == []


async def test_feed_sends_heartbeats(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "HEARTBEAT_SECONDS", 0.0)
    async with aclosing(feed.follow(CLIENT, "", always)) as events:
        await anext(events)
        assert await anext(events) == b":\n\n"


async def test_feed_checks_permission_before_each_event(feed: Feed) -> None:
    await observed(feed, at(0), at(1))
    (whole,) = await following(feed, 1)
    await observed(feed, at(2), at(3), at(4))
    verdicts = [True, True, False]

    async def allowed() -> bool:
        return verdicts.pop(0)

    received = [event async for event in feed.follow(CLIENT, whole["id"], allowed)]
    assert [parsed(event)["data"]["at"][17:19] for event in received[1:]] == ["31", "36"]
    assert not verdicts
    assert not feed._readers


async def test_feed_ends_when_closed(feed: Feed) -> None:
    async def all_of_it() -> list[bytes]:
        return [event async for event in feed.follow(CLIENT, "", always)]

    reading = asyncio.create_task(all_of_it())
    await asyncio.sleep(0)
    feed.close()
    assert await reading == [RETRY]
    feed.observe(at(0))  # a last evaluation is ignored


async def test_failed_observation_is_logged_and_skipped(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(structlog, "get_logger", lambda: log)
    await observed(feed, replace(readings.SNAPSHOT, watches=None), at(0))  # type: ignore[arg-type]
    assert [call.args for call in log.calls] == [("history_failed",), ("verdict",)]
    assert feed.account is not None


async def test_verdict_is_logged_when_it_changes_and_given_to_metrics(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(structlog, "get_logger", lambda: log)
    paused = replace(at(10), monitor=replace(readings.MONITOR, paused=True))
    assert feed.judged(replace(at(0), overall=None)).overall is None
    await observed(feed, at(0), at(5), paused)
    first, last = (call.kwargs for call in log.calls if call.args == ("verdict",))
    assert (first["verdict"], last["verdict"], last["level"]) == ("stalled", "paused", "unknown")
    assert feed.judged(paused).overall is OverallVerdict.PAUSED


async def test_feed_encodes_once_for_all_readers(feed: Feed) -> None:
    await observed(feed, at(0))
    received = []
    for _ in range(2):
        async with aclosing(feed.follow(CLIENT, "", always)) as events:
            await anext(events)
            received.append(await anext(events))
    assert received[0] is received[1]


class StreamClient:
    """An ASGI client of the stream; with `stuck` it accepts no data."""

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
        await EventStream(feed.follow(CLIENT, "", always))({"type": "http", "method": method}, self.receive, self.send)


async def test_stream_ends_when_reader_accepts_no_data(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "SEND_SECONDS", 0.0)
    client = StreamClient(stuck=True)
    await client.answer(feed)
    assert not feed._readers


async def test_stream_raises_programming_errors() -> None:
    async def events() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        raise LookupError

    client = StreamClient()
    with pytest.raises(LookupError):
        await EventStream(events())({"type": "http", "method": "GET"}, client.receive, client.send)


async def test_stream_head_has_no_body(feed: Feed) -> None:
    client = StreamClient()
    await client.answer(feed, "HEAD")
    assert [message["type"] for message in client.sent] == ["http.response.start", "http.response.body"]
    assert dict(client.sent[0]["headers"])[b"content-type"] == b"text/event-stream; charset=utf-8"


async def test_stream_ends_cleanly_when_permission_is_revoked(feed: Feed) -> None:
    await observed(feed, at(0))
    verdicts = [AccessDecision.ALLOWED, AccessDecision.FORBIDDEN]
    asked: list[tuple[Bearer, str]] = []

    async def authorize(sent: Bearer, path: str) -> AccessDecision:
        asked.append((sent, path))
        return verdicts.pop(0)

    (route,) = feeding.routes(feed, authorize)
    headers = [(b"authorization", b"Bearer secret")]
    scope = {"type": "http", "method": "GET", "headers": headers, "client": (CLIENT, 1), "state": {"client": CLIENT}}
    client = StreamClient()
    stream = await route.endpoint(Request(scope))
    await stream(scope, client.receive, client.send)
    _, retry, full, end = client.sent
    assert (retry["body"], parsed(full["body"])["event"]) == (RETRY, "full")
    assert (end["body"], "more_body" in end) == (b"", False)
    assert asked == [(Bearer("secret", CLIENT), "/")] * 2


async def past(feed: Feed, asked: str | None, seconds: float = 60.0) -> list[dict[str, Any]]:
    """Return the watches of an answer, which is sent in pieces."""
    found = await feed.ask(CLIENT, lambda timeline: update.past_watches(timeline, asked, seconds))
    answer = b"".join(update.series(found, seconds, 5.0))
    assert msgspec.json.encode(decode(answer, SeriesDocument)) == answer
    watches: list[dict[str, Any]] = json.loads(answer)["watches"]
    return watches


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("jobs.batch", ["jobs"]),
        ("jobs", ["jobs"]),
        (None, ["pods", 'my "deploy\\ments"', "jobs"]),
        ("things", []),
    ],
)
async def test_series_has_the_requested_watches(feed: Feed, asked: str | None, found: list[str]) -> None:
    await observed(feed, at(0))
    assert [watch["watch"] for watch in await past(feed, asked)] == found


async def test_series_has_past_figures_of_the_window(feed: Feed) -> None:
    await observed(feed, at(0), at(1))
    (pods,) = await past(feed, "pods")
    assert pods["at"] == [1_700_000_001.0, 1_700_000_006.0]
    assert (pods["judged"], pods["upper"], pods["events"]) == ([0.0625, 0.0625], [None, None], [120, 120])
    (pods,) = await past(feed, "pods", 3.0)
    assert pods["at"] == [1_700_000_006.0]


async def test_series_before_the_first_evaluation_is_empty(feed: Feed) -> None:
    assert await past(feed, None) == []
