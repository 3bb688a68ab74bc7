import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.monitor.cluster import Cluster, Log, nowhere
from tests.unit.monitor.inside import BUILD, at_once
from watchslo.app import run as app
from watchslo.app.run import RELOAD_SECONDS, Overrides
from watchslo.app.session import INTERRUPTED, open_listener, stop_signals
from watchslo.config.loading import load
from watchslo.config.model import Config
from watchslo.config.values import Listen
from watchslo.errors import ConfigError
from watchslo.monitor.supervisor import Supervisor

LOOPBACK = Listen("127.0.0.1", 0)


class File:
    """A configuration file, and the supervisor to which its changes are applied."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("watch: [{resource: pods}]")
        self.started, self.digest = load(path)
        self.supervisor = Supervisor(self.started, nowhere(), BUILD, lambda: 0.5)
        self.configured: list[Config] = []
        self.hung_up = asyncio.Event()
        configure = self.supervisor.configure

        def keep(config: Config) -> None:
            configure(config)
            self.configured.append(config)

        self.supervisor.configure = keep  # type: ignore[method-assign]

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def succeeded(self) -> bool:
        return at_once(self.supervisor.snapshot()).monitor.reload_succeeded


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[File]:
    made = File(tmp_path / "watchslo.yaml")
    following = asyncio.create_task(app._follow(made.supervisor, made.started, made.path, made.digest, made.hung_up))
    yield made
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def checks(number: int = 1) -> None:
    """Wait until the file was checked so many times."""
    await asyncio.sleep(number * RELOAD_SECONDS + 1)


class TestFollow:
    async def test_changed_file_is_applied_once(self, file: File, log: Log) -> None:
        file.write("watch: [{resource: nodes}]")
        await checks(5)
        assert [config.watch[0].resource for config in file.configured] == ["nodes"]
        (reloaded,) = log.of("config_reloaded")
        assert reloaded["needs_restart"] == []
        assert len(reloaded["sha256"]) == 64

    async def test_unchanged_content_is_not_applied(self, file: File) -> None:
        file.write(file.path.read_text())
        await checks(3)
        assert not file.configured

    async def test_signal_applies_the_file_at_once_even_if_it_has_not_changed(self, file: File, log: Log) -> None:
        file.hung_up.set()
        await asyncio.sleep(0.1 * RELOAD_SECONDS)
        assert len(file.configured) == len(log.of("config_reloaded")) == 1
        await checks(3)
        assert len(file.configured) == 1
        file.write("watch: [{resource: pods, lable: x}]")
        await checks()
        file.hung_up.set()
        await checks()
        assert len(log.of("config_refused")) == 2, "it says so whenever it is asked"

    async def test_unchanged_file_is_not_parsed(self, file: File, monkeypatch: pytest.MonkeyPatch) -> None:
        """Parsing 300 watches takes 33 ms, in which the measuring thread shares the interpreter."""
        loaded: list[Path] = []

        def counted(path: Path, **options: Any) -> tuple[Config, str]:
            loaded.append(path)
            return load(path, **options)

        monkeypatch.setattr(app, "load", counted)
        await checks(3)
        assert not loaded
        file.write("watch: [{resource: nodes}]")
        await checks(3)
        assert loaded == [file.path]

    async def test_bad_file_is_refused_and_logged_once(self, file: File, log: Log) -> None:
        file.write("watch: [{resource: pods, lable: x}]")
        await checks(5)
        assert not file.configured
        assert not file.succeeded()
        (refused,) = log.of("config_refused")
        assert refused["message"].startswith(f"{file.path}:1: watch[0].lable: unknown key")
        file.path.unlink()
        await checks(2)
        assert len(log.of("config_refused")) == 2
        file.write("watch: [{resource: pods}]")
        await checks()
        assert file.succeeded()
        assert not file.configured

    async def test_outdated_key_is_accepted_and_logged(self, file: File, log: Log) -> None:
        file.write("metrics: proven\nwatch: [{resource: nodes}]")
        await checks(3)
        assert [watch.resource for watch in file.configured[0].watch] == ["nodes"]
        assert [event["message"] for event in log.of("config_outdated")] == [
            f"{file.path}:1: metrics: proven is outdated; write mode: node instead"
        ]
        assert log.of("config_reloaded")[0]["needs_restart"] == ["mode"]

    async def test_refused_change_names_the_file(self, file: File, log: Log) -> None:
        file.write("objective: {threshold: 700ms}")
        await checks(3)
        (refused,) = log.of("config_refused")
        assert refused["message"].startswith(f"{file.path}: a threshold of 700ms needs a bucket")
        assert not file.succeeded()

    async def test_fixed_keys_keep_their_values(self, file: File, log: Log) -> None:
        file.write(
            "cluster: other\nclock: {interval: 250ms}\nstartDelay: 1m\nmetrics: full\nquantiles: [0.99]\npaused: true"
        )
        await checks()
        (config,) = file.configured
        assert config.paused
        assert (config.cluster, config.clock, config.metrics, config.quantiles) == (
            None,
            file.started.clock,
            "basic",
            None,
        )
        assert log.of("config_reloaded")[0]["needs_restart"] == [
            "cluster",
            "clock",
            "startDelay",
            "metrics",
            "quantiles",
        ]


@asynccontextmanager
async def daemon(config: Config, path: Path | None, digest: str = "") -> AsyncIterator[asyncio.Task[None]]:
    with open_listener(None, LOOPBACK) as listener:
        task = asyncio.create_task(
            app._run(Supervisor(config, nowhere(), BUILD, lambda: 0.5), config, path, digest, listener, config.server)
        )
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class TestDaemon:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    async def test_daemon_stops_at_signal(self, cluster: Cluster, log: Log, number: int) -> None:
        async with daemon(Config(), None) as task:
            await asyncio.sleep(20)
            assert cluster.open_watches()
            os.kill(os.getpid(), number)
            await task
        assert log.of("listening")[0]["url"].startswith("http://127.0.0.1:")
        assert log.events[-1] == "stopped"
        assert not cluster.is_open

    async def test_daemon_applies_changes_of_its_file(self, cluster: Cluster, tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text("watch: [{resource: pods}]")
        async with daemon(*_loaded(path)):
            await asyncio.sleep(20)
            path.write_text("watch: [{resource: nodes}]")
            await checks(3)
            assert [watch.resource.key for watch in cluster.open_watches()] == ["nodes"]

    async def test_daemon_reloads_and_does_not_end_at_sighup(self, log: Log, tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text("watch: [{resource: pods}]")
        async with daemon(*_loaded(path)) as task:
            await asyncio.sleep(20)
            os.kill(os.getpid(), signal.SIGHUP)
            await checks()
            assert not task.done()
            assert len(log.of("config_reloaded")) == 1

    async def test_unknown_resource_names_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text("watch: [{resource: podz}]")
        async with daemon(*_loaded(path)) as task:
            with pytest.raises(ConfigError) as refused:
                await task
        assert str(refused.value) == f"{path}: watch: the apiserver serves no resource podz; did you mean pods?"


def _loaded(path: Path) -> tuple[Config, Path, str]:
    config, digest = load(path)
    return config, path, digest


class TestSession:
    async def test_second_signal_ends_the_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        codes: list[int] = []
        monkeypatch.setattr(os, "_exit", codes.append)
        stop = asyncio.Event()
        with stop_signals(stop):
            os.kill(os.getpid(), signal.SIGTERM)
            await stop.wait()
            assert not codes
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.1)
        assert codes == [INTERRUPTED]

    def test_invalid_listen_address_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="--listen: here is not an address to listen on"):
            open_listener("here", LOOPBACK)


class TestCommand:
    @pytest.fixture
    def began(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """The arguments that the daemon would have started with."""
        facts: dict[str, Any] = {}

        def supervise(_: Config, kubeconfig: Path | None, context: str | None, *, delay: float) -> str:
            facts.update(kubeconfig=kubeconfig, context=context, delay=delay)
            return "supervisor"

        def begin(*arguments: Any) -> None:
            facts["arguments"], facts["server"] = arguments[:4], arguments[5]

        monkeypatch.setattr(app, "supervise", supervise)
        monkeypatch.setattr(app, "system_random", lambda: 0.25)
        monkeypatch.setattr(app, "_run", begin)
        monkeypatch.setattr(app, "run_on_loop", lambda _: None)
        monkeypatch.setattr("watchslo.app.logs.set_up", lambda *given: facts.update(log=given))
        return facts

    def test_command_line_overrides_the_file(self, began: dict[str, Any], tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text("log: {format: console, level: debug}\nserver: {listen: 'nowhere:1'}")
        app.run(path, Overrides(Path("k"), "c", "127.0.0.1:0", "json", "error"))
        assert (began["kubeconfig"], began["context"], began["log"]) == (Path("k"), "c", ("json", "error"))
        assert began["arguments"] == ("supervisor", *_loaded(path))

    @pytest.mark.parametrize("configured", ["", ", authorization: none, tls: {certFile: a, keyFile: b}"])
    def test_command_line_sets_authorization_and_tls(
        self, began: dict[str, Any], tmp_path: Path, configured: str
    ) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text(f"server: {{listen: '127.0.0.1:0', limits: {{connections: 8}}{configured}}}")
        app.run(path, Overrides(authorization="kubernetes", cert_dir=Path("/tls")))
        server = began["server"]
        assert server.authorization == "kubernetes"
        assert (server.tls.cert_file, server.tls.key_file) == ("/tls/tls.crt", "/tls/tls.key")
        assert server.limits.connections == 8
        app.run(path, Overrides())
        assert began["server"] == load(path)[0].server

    def test_outdated_key_is_logged_when_the_daemon_starts(
        self, began: dict[str, Any], tmp_path: Path, log: Log, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text("metrics: proven\nclock: {interval: 30s}\nserver: {listen: '127.0.0.1:0'}")
        app.run(path, Overrides())
        assert began["arguments"][1].mode == "node"
        assert len(log.of("config_outdated")) == 1
        assert capsys.readouterr().err == ""

    def test_start_delay_is_random(self, began: dict[str, Any], tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text("startDelay: 2m\nserver: {listen: '127.0.0.1:0'}")
        app.run(path, Overrides())
        assert began["delay"] == 30.0

    def test_file_overrides_defaults(self, began: dict[str, Any], tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text("log: {format: console, level: debug}\nserver: {listen: '127.0.0.1:0'}")
        app.run(path, Overrides())
        assert (began["log"], began["delay"]) == (("console", "debug"), 0.0)
