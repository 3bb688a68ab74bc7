"""The server without the page, over a real socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.unit.serve import readings
from watchslo.config.model import ServerLimitsConfig
from watchslo.config.values import Listen
from watchslo.errors import UnavailableError
from watchslo.serve.auth import Authorize, Bearer
from watchslo.serve.auth_cache import AccessDecision
from watchslo.serve.essentials import create_app
from watchslo.serve.exposition import MetricsEncoder
from watchslo.serve.history import History
from watchslo.serve.metrics import Detail
from watchslo.serve.server import StatusServer, listen, url
from watchslo.snapshot import Snapshot


@asynccontextmanager
async def serving(
    snapshot: Snapshot | None, unhealthy: str | None = None, authorize: Authorize | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a running server; without a snapshot, the measuring loop hangs."""

    async def latest() -> Snapshot:
        if snapshot is None:
            raise UnavailableError("It hangs.")
        return snapshot

    listener = listen(Listen("127.0.0.1", 0))
    history = History()
    if snapshot is not None:
        history.observe(snapshot)
        await history.ask(lambda _: None)  # when it has been observed
    app = create_app(latest, lambda: unhealthy, MetricsEncoder(Detail.PROVEN), history, authorize)
    server = StatusServer(app, listener, ServerLimitsConfig())
    server.start()
    async with aiohttp.ClientSession(url(listener)) as client:
        yield client
    history.close()
    await server.stop()


async def test_metrics_and_probes_are_served() -> None:
    async with serving(readings.SNAPSHOT) as client:
        async with client.get("/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = await answer.text()
            assert "\nwatchslo_watch_up{" in text
            assert "\nwatchslo_verdict{" in text
        for path in ("/healthz", "/readyz"):
            async with client.get(path) as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
        async with client.head("/metrics") as answer:
            assert (answer.status, await answer.read()) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/api/v1/status", "/openapi.json", "/metrics/"])
async def test_page_and_api_are_not_served(path: str) -> None:
    async with serving(readings.SNAPSHOT) as client, client.get(path, allow_redirects=False) as answer:
        assert answer.status == 404


async def test_reasons_are_served_while_not_healthy_and_not_ready() -> None:
    async with serving(readings.EMPTY, unhealthy="the last heartbeat was 7.2 s ago") as client:
        async with client.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (503, "the last heartbeat was 7.2 s ago\n")
        async with client.get("/readyz") as answer:
            assert answer.status == 503
            assert (await answer.text()).splitlines() == ["the clock has not ticked yet", "no stream has started"]


async def test_hanging_loop_gets_503() -> None:
    async with serving(None) as client, client.get("/metrics") as answer:
        assert (answer.status, await answer.json()) == (503, {"detail": "It hangs."})


async def test_access_is_checked_except_for_probes() -> None:
    async def authorize(sent: Bearer, _: str) -> AccessDecision:
        return AccessDecision.ALLOWED if sent.token == "known" else AccessDecision.FORBIDDEN

    async with serving(readings.SNAPSHOT, authorize=authorize) as client:
        found = []
        for path, token in (("/metrics", "known"), ("/metrics", "other"), ("/nowhere", "other"), ("/healthz", "other")):
            async with client.get(path, headers={"Authorization": f"Bearer {token}"}) as answer:
                found.append(answer.status)
        async with client.post("/metrics") as answer:
            found.append(answer.status)
        assert found == [200, 403, 403, 200, 405]
