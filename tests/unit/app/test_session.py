import asyncio
import resource
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.unit.monitor.cluster import Log
from tests.unit.monitor.inside import at_once
from watchslo.app.session import (
    MOST_FILES,
    SWITCH_SECONDS,
    _within_files,
    open_listener,
    run_on_loop,
    serving,
    supervise,
)
from watchslo.asyncio_overrides import PLAIN_VARIABLE
from watchslo.config.model import Config
from watchslo.config.sections.server import ServerLimitsConfig
from watchslo.errors import ConnectError

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {}}]
contexts: [{name: one, context: {cluster: here, user: me}}]
current-context: one
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


async def loop() -> str:
    return type(asyncio.get_running_loop()).__module__


@pytest.mark.parametrize(("plain", "used"), [("", "watchslo.asyncio_overrides"), ("1", "watchslo.event_loop")])
def test_run_on_loop_uses_a_timed_loop_and_short_switch_interval(
    monkeypatch: pytest.MonkeyPatch, plain: str, used: str
) -> None:
    intervals: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", intervals.append)
    monkeypatch.setenv(PLAIN_VARIABLE, plain)
    assert run_on_loop(loop()) == used
    assert intervals == [SWITCH_SECONDS]


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((1024, 524_288), (MOST_FILES, 524_288)),
        ((1024, 4096), (4096, 4096)),
        ((1024, resource.RLIM_INFINITY), (MOST_FILES, resource.RLIM_INFINITY)),
        ((1_048_576, 1_048_576), None),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), None),
    ],
)
def test_run_on_loop_raises_the_limit_of_open_files(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: tuple[int, int] | None
) -> None:
    limits_set: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits_set.append(limit))
    run_on_loop(loop())
    assert limits_set == ([wanted] if wanted else [])


@pytest.mark.parametrize(
    ("files", "connections"), [(65_536, 512), (2048, 512), (1024, 256), (16, 8), (resource.RLIM_INFINITY, 512)]
)
def test_clients_leave_most_open_files_to_the_watches(
    monkeypatch: pytest.MonkeyPatch, log: Log, files: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert _within_files(ServerLimitsConfig()).connections == connections
    assert len(log.of("connections_limited")) == (connections < 512)


def test_kubeconfig_and_context_come_from_arguments(kubeconfig: Path) -> None:
    assert at_once(supervise(Config(), kubeconfig, "one").snapshot()).monitor.not_ready == (
        "The cluster is being discovered.",
    )
    with pytest.raises(ConnectError, match="two"):
        supervise(Config(), kubeconfig, "two")


def test_kubeconfig_and_context_come_from_configuration(kubeconfig: Path) -> None:
    made = Config.model_validate({"kubernetes": {"kubeconfig": str(kubeconfig), "context": "two"}})
    with pytest.raises(ConnectError, match="two"):
        supervise(made)


@pytest.mark.parametrize(
    ("address", "authorization", "is_warned"),
    [
        ("0.0.0.0:0", "kubernetes", True),
        ("127.0.0.1:0", "kubernetes", False),
        ("[::1]:0", "kubernetes", False),
        ("0.0.0.0:0", "none", False),
    ],
)
def test_tokens_in_clear_are_warned_of(
    kubeconfig: Path, log: Log, address: str, authorization: str, *, is_warned: bool
) -> None:
    config = Config.model_validate({"server": {"authorization": authorization}})

    async def serve() -> None:
        with open_listener(address, config.server.listen) as listener:
            async with serving(supervise(config, kubeconfig), config, listener):
                pass

    run_on_loop(serve())
    assert len(log.of("tokens_unprotected")) == is_warned


@pytest.mark.parametrize(("page", "status"), [(True, 200), (False, 404)])
def test_page_is_served_unless_configured_otherwise(kubeconfig: Path, *, page: bool, status: int) -> None:
    config = Config.model_validate({"server": {"page": page}})

    async def status_of(client: aiohttp.ClientSession, path: str) -> int:
        async with client.get(path) as answer:
            await answer.read()
            return answer.status

    async def ask() -> list[int]:
        with open_listener("127.0.0.1:0", config.server.listen) as listener:
            served = serving(supervise(config, kubeconfig), config, listener)
            async with served as address, aiohttp.ClientSession(address) as client:
                return [await status_of(client, path) for path in ("/openapi.json", "/page/page.js", "/healthz")]

    *of_page, health = run_on_loop(ask())
    assert of_page == [status, status]
    assert health != 404, "a late machine is served a 503"
