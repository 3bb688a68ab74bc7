"""The client's patience, in seconds of a clock that jumps."""

import asyncio
import contextlib
import time
from functools import partial

import pytest

from tests.unit.kube.conftest import (
    CHUNKED,
    EMPTY,
    EVENT,
    Known,
    Server,
    answer,
    chunk,
    connection_to,
    failed,
    tick,
    watched,
)
from watchslo.kube.client import Client
from watchslo.kube.limiter import Limiter
from watchslo.watch.failure import Failure, Reason

pytestmark = pytest.mark.usefixtures("jumping_time")

NOTHING = answer(EMPTY)


def is_about(seconds: float, lasted: float) -> bool:
    """Return True if that was the timeout: aiohttp rounds long ones up to whole seconds."""
    return seconds - 0.01 <= lasted <= seconds + 1.01


@pytest.mark.parametrize("sent", [b"", NOTHING[:-1]], ids=["no answer", "slow body"])
async def test_tick_without_an_answer_times_out_after_5_s(server: Server, client: Client, sent: bytes) -> None:
    server.script = [sent]
    began = time.monotonic()
    failure = await failed(tick(client))
    assert (failure.reason, failure.message) == (Reason.TIMEOUT, f"No answer from {server.url} in time.")
    assert is_about(5.0, time.monotonic() - began)


async def test_tick_with_an_unfinished_handshake_is_unreachable_after_4_s(server: Server, known: Known) -> None:
    url = server.url.replace("http:", "https:")  # the server does not answer the TLS handshake
    async with Client(connection_to(url, known), Limiter(100), known.observe) as client:
        began = time.monotonic()
        failure = await failed(tick(client))
    assert failure.reason is Reason.UNREACHABLE
    assert failure.message == f"No connection to {url} in time; check the network path."
    assert time.monotonic() - began == pytest.approx(4.0, abs=0.01)


@pytest.mark.parametrize(
    ("sent", "seconds", "counted"),
    [(b"", 30.0, "timeout"), (CHUNKED + chunk(EVENT), 330.0, "200")],
    ids=["no headers", "silence beyond the timeout"],
)
async def test_watch_times_out(server: Server, client: Client, sent: bytes, seconds: float, counted: str) -> None:
    server.script = [sent]
    began = time.monotonic()
    *_, failure = await watched(client)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.TIMEOUT
    assert ("a proxy on the way" in failure.message) is (counted == "timeout"), "lists may be answered all the same"
    assert is_about(seconds, time.monotonic() - began)
    assert client.requests == {("watch", counted): 1}


async def test_only_resumed_watches_do_not_wait_behind_other_requests(server: Server, known: Known) -> None:
    server.script = [NOTHING, CHUNKED + chunk(b""), CHUNKED + chunk(b"")]
    sent: list[bool] = []
    async with Client(connection_to(server.url, known), Limiter(0.001, 100), known.observe) as client:
        await tick(client)
        for resumes in (True, False):
            how = {"resumes": resumes, "on_sent": partial(sent.append, resumes)}
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(900.0):
                    await watched(client, **how)
    assert sent == [True]
