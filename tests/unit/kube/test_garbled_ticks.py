"""Whatever answers a tick, it ends in the right reading or in a failure, and the next tick works."""

import gzip
from math import isfinite

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog import get_logger

from tests.support.garbled import DEEP, garbled, read_leniently, replacements, revision_in
from tests.unit.kube.conftest import CHUNKED, PODS, Known, Reply, Server, answer, chunk, hang_up, then, tick
from watchslo.kube.client import Client
from watchslo.model import Reading
from watchslo.monitor.clocks.ticker import Ticker
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.watch.decode import LARGEST_REVISION
from watchslo.watch.failure import LONGEST_RETRY_AFTER_SECONDS, Failure, Reason

EMPTY = (
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"42","continue":"","remainingItemCount":7},'
    b'"items":[]}'
)
STATUS = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{"continue":"abc"},"status":"Failure","message":"too old",'
    b'"reason":"Expired","details":{"causes":[{"reason":"ResourceVersionTooLarge","field":"x"}],'
    b'"retryAfterSeconds":1},"code":410}'
)
HTTP = answer(EMPTY, "200 OK", "Date: Sat, 21 Nov 2026 12:16:29 GMT", "Retry-After: 7")
IN_CHUNKS = CHUNKED + chunk(EMPTY[:50]) + chunk(EMPTY[50:]) + b"0\r\n\r\n"
COMPRESSED = answer(gzip.compress(EMPTY, mtime=0), "200 OK", "Content-Encoding: gzip")
CODES = (200, 201, 204, 206, 302, 400, 401, 404, 410, 418, 429, 500, 504, 599, 999)

replies = st.one_of(
    garbled(HTTP),
    garbled(IN_CHUNKS),
    garbled(COMPRESSED),
    st.binary(max_size=300),
    st.sampled_from([b"[" * DEEP, b"HTTP/1.1 200 OK\r\n" * 500, CHUNKED + b"zz\r\n" + EMPTY]),
)
each_example_uses_the_same_server = settings(
    max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


async def tick_twice(server: Server, client: Client, first: bytes | Reply) -> Reading | Failure:
    """Return how a first tick ends; the second one is answered well."""
    ticker = Ticker(lambda resource: client.read_nothing(resource, "default", "tick"), FailureLog(get_logger()))
    ticker.tick_on([PODS])
    server.script = [first]
    ended = await ticker.tick()
    client.hang_up()  # the server may have closed the connection
    server.script = [answer(EMPTY)]
    good = await ticker.tick()
    assert isinstance(good, Reading)
    assert good.revision == 42
    assert ticker.failures.now is None
    assert ticker.results["failed"] == isinstance(ended, Failure)
    return ended


def check_tick(ended: Reading | Failure, body: bytes) -> None:
    if isinstance(ended, Reading):
        assert isinstance(ended.revision, int)
        assert ended.revision == revision_in(read_leniently(body))
    else:
        assert ended.reason in (Reason.GARBAGE, Reason.UNPARSABLE)


def check_refusal(ended: Reading | Failure, code: int) -> None:
    assert isinstance(ended, Failure)
    assert ended.status == code
    assert 0.0 <= (ended.retry_after or 0.0) <= LONGEST_RETRY_AFTER_SECONDS
    assert len(ended.message) < 1_000


@each_example_uses_the_same_server
@given(body=garbled(EMPTY))
async def test_garbled_tick_is_the_right_reading_or_a_failure(server: Server, client: Client, body: bytes) -> None:
    check_tick(await tick_twice(server, client, answer(body)), body)


async def test_each_odd_value_in_a_tick_is_the_right_reading_or_a_failure(server: Server, client: Client) -> None:
    for body in replacements(EMPTY):
        server.script = [answer(body)]
        check_tick(await tick(client), body)


async def test_each_odd_value_in_a_refusal_is_a_failure(server: Server, client: Client) -> None:
    for body in replacements(STATUS):
        server.script = [answer(body, "504 No")]
        check_refusal(await tick(client), 504)


@each_example_uses_the_same_server
@given(body=garbled(STATUS), code=st.sampled_from(CODES[4:]), retry_after=st.sampled_from(["1", "9" * 400, "-1", "²"]))
async def test_garbled_refusal_is_a_failure(
    server: Server, client: Client, body: bytes, code: int, retry_after: str
) -> None:
    refusal = answer(body, f"{code} No", f"Retry-After: {retry_after}")
    check_refusal(await tick_twice(server, client, refusal), code)


@each_example_uses_the_same_server
@given(reply=replies)
async def test_garbled_http_is_the_right_reading_or_a_failure(
    server: Server, client: Client, known: Known, reply: bytes
) -> None:
    ended = await tick_twice(server, client, then(reply, hang_up))
    if isinstance(ended, Reading):
        assert 0 <= ended.revision <= LARGEST_REVISION
    assert all(isfinite(date) for date, _, _ in known.dates)


@pytest.mark.parametrize("code", CODES)
async def test_any_status_is_a_reading_or_a_failure(server: Server, client: Client, code: int) -> None:
    ended = await tick_twice(server, client, then(answer(EMPTY, f"{code} Any"), hang_up))
    assert isinstance(ended, Reading) == (code in (200, 201))
