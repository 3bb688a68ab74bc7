"""The server over a real socket, as a scraper, a kubelet and a browser use it."""

import errno
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.metric_messages import ACCEPT, messages
from tests.unit.serve import readings
from tests.unit.serve.serving import served
from watchslo.config.values import Listen
from watchslo.errors import ServeError, UnavailableError
from watchslo.serve import essentials, http
from watchslo.serve.auth import Authorize, Bearer
from watchslo.serve.auth_cache import AccessDecision
from watchslo.serve.build import this_build
from watchslo.serve.document import PIECE_SIZE
from watchslo.serve.exposition import MetricsEncoder
from watchslo.serve.feed import Feed
from watchslo.serve.history import History
from watchslo.serve.metrics import Detail
from watchslo.serve.server import listen, url
from watchslo.serve.status import StatusEncoder
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Timeline

ACCOUNT = Timeline().observe(readings.SNAPSHOT)
ANY_PORT = Listen("127.0.0.1", 0)


@asynccontextmanager
async def serving(
    snapshot: Snapshot | None, unhealthy: str | None = None, authorize: Authorize | None = None, *, bare: bool = False
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a running server, `bare` without page and API; without a snapshot, the measuring loop hangs."""
    history = History() if bare else Feed()

    async def latest() -> Snapshot:
        if snapshot is None:
            raise UnavailableError("It hangs.")
        return snapshot

    if snapshot is not None:
        history.observe(snapshot)
        await history.ask("test", lambda _: None)  # when it has been observed
    encoder, health = MetricsEncoder(Detail.NODE if bare else Detail.BASIC), lambda: unhealthy
    app = (
        http.create_app(latest, health, encoder, history, authorize)
        if isinstance(history, Feed)
        else essentials.create_app(latest, health, encoder, history, authorize)
    )
    async with served(app) as client:
        yield client
        history.close()


BOTH = pytest.mark.parametrize("bare", [False, True], ids=["with page", "without page"])


async def test_metrics_are_served_in_the_accepted_format() -> None:
    async with serving(readings.SNAPSHOT) as client:
        async with client.get("/metrics", headers={"Accept-Encoding": "identity"}) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert "Content-Encoding" not in answer.headers
            assert "# TYPE watchslo_slo_events_total counter" in await answer.text()
        headers = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}
        async with client.get("/metrics", headers=headers) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0;")
            assert answer.headers["Content-Encoding"] == "gzip"
            families = text_string_to_metric_families(await answer.text())  # type: ignore[no-untyped-call]
            names = {family.name for family in families}
            assert {"watchslo_slo_events", "process_resident_memory_bytes"} <= names
        async with client.get("/metrics", headers={"Accept": ACCEPT}) as answer:
            assert answer.headers["Content-Type"].startswith("application/vnd.google.protobuf; proto=")
            names = {message.name for message in messages(await answer.read())}
            assert {"watchslo_slo_events_total", "process_resident_memory_bytes"} <= names


async def test_status_and_page_are_served() -> None:
    async with serving(readings.SNAPSHOT) as client:
        async with client.get("/api/v1/status") as answer:
            assert answer.headers["Content-Type"] == "application/json"
            assert await answer.read() == StatusEncoder().encode(readings.SNAPSHOT, ACCOUNT).body
        async with client.get("/") as answer:
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store"
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert "12.3 ms" in await answer.text()


async def test_large_answers_are_served_as_a_whole() -> None:
    snapshot = readings.many(300)
    async with serving(snapshot) as client:
        async with client.get("/metrics", headers={"Accept-Encoding": "identity"}) as answer:
            text = await answer.read()
            assert int(answer.headers["Content-Length"]) == len(text) > 20 * PIECE_SIZE
            assert text.count(b"\nwatchslo_watch_up{") == 300
        async with client.get("/metrics", headers={"Accept-Encoding": "gzip"}) as answer:
            assert (await answer.read()).count(b"\nwatchslo_watch_up{") == 300
        async with client.get("/api/v1/status") as answer:
            assert len((await answer.json())["watches"]) == 300


async def test_series_and_events_are_served() -> None:
    async with serving(readings.SNAPSHOT) as client:
        async with client.get("/api/v1/events") as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            assert await answer.content.readline() == b"retry: 2000\n"
            assert await answer.content.readline() == b"\n"
            assert await answer.content.readline() == b"event: full\n"
        async with client.get("/api/v1/series", params={"resource": "jobs", "window": "90s"}) as answer:
            found = await answer.json()
            assert (found["window"], [watch["watch"] for watch in found["watches"]]) == (90.0, ["jobs"])
        async with client.get("/api/v1/series") as answer:
            assert (await answer.json())["window"] == 3600.0
        async with client.get("/page/uplot/LICENSE") as answer:
            assert "MIT" in await answer.text()


async def test_details_are_served() -> None:
    async with serving(readings.SNAPSHOT) as client:
        bodies = []
        for name in ("jobs", "jobs@service"):
            async with client.get("/api/v1/watches", params={"watch": name}) as answer:
                assert answer.headers["Content-Type"] == "application/json"
                bodies.append(await answer.json())
        assert bodies[0] == bodies[1]
        assert [watch["key"] for watch in bodies[0]["watches"]] == ["jobs@service"]
        for params, status in (({"watch": "things"}, 404), ({}, 422), ({"watch": "x" * 601}, 422)):
            async with client.get("/api/v1/watches", params=params) as answer:
                assert answer.status == status


async def test_details_before_an_evaluation_are_not_found() -> None:
    async with serving(None) as client, client.get("/api/v1/watches", params={"watch": "pods"}) as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("query", "status_code"),
    [({"resource": "things"}, 404), ({"window": "90"}, 422), ({"window": "0s"}, 422), ({"resource": "x" * 254}, 422)],
)
async def test_series_with_invalid_query_is_refused(query: dict[str, str], status_code: int) -> None:
    async with serving(readings.SNAPSHOT) as client, client.get("/api/v1/series", params=query) as answer:
        assert answer.status == status_code


@BOTH
async def test_probes_and_metrics_of_healthy_daemon_are_served(*, bare: bool) -> None:
    async with serving(readings.SNAPSHOT, bare=bare) as client:
        for path in ("/healthz", "/readyz"):
            async with client.get(path) as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
        async with client.get("/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = await answer.text()
            assert "\nwatchslo_watch_up{" in text
            assert ("\nwatchslo_verdict{" in text) or not bare


@BOTH
async def test_probes_of_unhealthy_daemon_return_503_with_reasons(*, bare: bool) -> None:
    async with serving(readings.EMPTY, unhealthy="the last heartbeat was 7.2 s ago", bare=bare) as client:
        async with client.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (503, "the last heartbeat was 7.2 s ago\n")
        async with client.get("/readyz") as answer:
            assert answer.status == 503
            assert (await answer.text()).splitlines() == ["the clock has not ticked yet", "no stream has started"]


@BOTH
async def test_server_answers_while_measuring_loop_hangs(*, bare: bool) -> None:
    async with serving(None, unhealthy="the last heartbeat was 7.2 s ago", bare=bare) as client:
        for path in ("/metrics", "/readyz", *(() if bare else ("/", "/api/v1/status"))):
            async with client.get(path) as answer:
                assert (answer.status, await answer.json()) == (503, {"detail": "It hangs."})
                assert answer.headers["Retry-After"] == "1"
        async with client.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (503, "the last heartbeat was 7.2 s ago\n")


@BOTH
async def test_access_is_checked_except_for_probes(*, bare: bool) -> None:
    async def authorize(sent: Bearer, _: str) -> AccessDecision:
        return AccessDecision.ALLOWED if sent.token == "known" else AccessDecision.FORBIDDEN

    async with serving(readings.SNAPSHOT, authorize=authorize, bare=bare) as client:
        found = []
        for path, token in (("/metrics", "known"), ("/metrics", "other"), ("/nowhere", "other"), ("/healthz", "other")):
            async with client.get(path, headers={"Authorization": f"Bearer {token}"}) as answer:
                found.append(answer.status)
        async with client.post("/metrics") as answer:
            found.append(answer.status)
        assert found == [200, 403, 403, 200, 405]


async def test_head_has_no_body() -> None:
    async with serving(readings.SNAPSHOT) as client:
        for path in ("/", "/page/page.js", "/metrics", "/healthz", "/readyz", "/api/v1/status", "/api/v1/series"):
            async with client.head(path) as answer:
                assert answer.status == 200
                assert int(answer.headers["Content-Length"]) > 0
                assert await answer.read() == b""


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/api/v1/status", "/openapi.json", "/metrics/"])
async def test_page_and_api_can_be_left_out(path: str) -> None:
    async with serving(readings.SNAPSHOT, bare=True) as client, client.get(path, allow_redirects=False) as answer:
        assert answer.status == 404


async def test_unknown_path_gets_json_error() -> None:
    async with serving(readings.SNAPSHOT) as client:
        for path in ("/metrics/", "/docs", "/redoc", "/nowhere"):
            async with client.get(path, allow_redirects=False) as answer:
                assert (answer.status, await answer.json()) == (404, {"detail": "Not Found"})
        async with client.post("/metrics") as answer:
            assert (answer.status, await answer.json()) == (405, {"detail": "Method Not Allowed"})


async def test_openapi_document_lists_paths_and_schemas() -> None:
    async with serving(readings.SNAPSHOT) as client, client.get("/openapi.json") as answer:
        document = await answer.json()
    paths = {"/healthz", "/readyz", "/api/v1/status", "/api/v1/series", "/api/v1/events", "/api/v1/watches"}
    assert set(document["paths"]) == paths
    assert "QuantileStatus" in document["components"]["schemas"]
    assert all("503" in document["paths"][path]["get"]["responses"] for path in paths)


async def test_server_does_not_capture_signals() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with serving(readings.SNAPSHOT) as client, client.get("/healthz"):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


class TestListen:
    def test_listen_on_used_port_names_the_remedy(self) -> None:
        with listen(ANY_PORT) as taken:
            port = taken.getsockname()[1]
            message = f"cannot listen on 127.0.0.1:{port}: the port is already in use; choose another one with --listen"
            with pytest.raises(ServeError) as raised:
                listen(Listen("127.0.0.1", port))
        assert str(raised.value) == message

    @pytest.mark.parametrize(
        ("error", "why"),
        [
            (PermissionError(errno.EACCES, "denied"), "ports below 1024 need a privilege"),
            (OSError(errno.EADDRNOTAVAIL, "no"), "this machine has no such address"),
            (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        ],
    )
    def test_listen_error_names_the_remedy(self, error: OSError, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(socket, "create_server", refuse)
        with pytest.raises(ServeError, match=rf"^cannot listen on \[fe80::1\]:80: {why}; choose another .* --listen$"):
            listen(Listen("fe80::1", 80))

    @pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
    @pytest.mark.parametrize("host", ["", "::"])
    def test_listen_on_all_addresses_accepts_both_families(self, host: str) -> None:
        with listen(Listen(host, 0)) as listener:
            port = listener.getsockname()[1]
            assert url(listener) == f"http://127.0.0.1:{port}/"
            for address in ("127.0.0.1", "::1"):
                socket.create_connection((address, port)).close()

    @pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
    def test_listen_on_one_ipv6_address(self) -> None:
        with listen(Listen("::1", 0)) as listener:
            assert url(listener) == f"http://[::1]:{listener.getsockname()[1]}/"

    def test_listen_on_all_addresses_without_ipv6_uses_ipv4(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
        with listen(Listen("", 0)) as listener:
            assert listener.getsockname()[1] > 0


class TestBuild:
    def test_build_has_the_revision_of_the_image(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WATCHSLO_REVISION", "0123abc")
        assert this_build().revision == "0123abc"

    def test_build_revision_is_unknown_outside_an_image(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("WATCHSLO_REVISION", raising=False)
        assert this_build().revision == "unknown"
