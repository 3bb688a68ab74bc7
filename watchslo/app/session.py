"""Parts shared by all measuring commands: the event loop, signals, the supervisor and the HTTP server."""

import asyncio
import contextlib
import ipaddress
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

import structlog
from starlette.types import ASGIApp

from watchslo.app.authorization import Authorizer
from watchslo.app.garbage import GarbageCollection
from watchslo.asyncio_overrides import new_event_loop
from watchslo.config.model import Config
from watchslo.config.sections.server import ServerLimitsConfig
from watchslo.config.values import Listen, parse_listen
from watchslo.errors import ConfigError, install_extra
from watchslo.kube.connect import connect
from watchslo.monitor.supervisor import Supervisor
from watchslo.serve import essentials
from watchslo.serve.build import this_build
from watchslo.serve.exposition import MetricsEncoder
from watchslo.serve.history import History
from watchslo.serve.metrics import Detail
from watchslo.serve.server import StatusServer, listen, url
from watchslo.serve.snapshot_source import SnapshotSource
from watchslo.serve.tls import Certificate

SWITCH_SECONDS = 0.0005  # a thread that encodes delays timestamps by 1.4 ms at P99; by 10 ms with Python's default
MOST_FILES = 65_536
MOST_OF_FILES = 0.25  # for connections of clients, and as many may wait: each watch needs a file too
LEAST_CONNECTIONS = 8
INTERRUPTED = 130
IN_CLEAR = "Readers send their tokens in clear; set `server.tls` or --cert-dir, unless a proxy on this host adds TLS."

T = TypeVar("T")


def run_on_loop(work: Coroutine[None, None, T]) -> T:
    """Run `work` on a timed event loop, with a short thread switch interval and a high limit of open files."""
    sys.setswitchinterval(SWITCH_SECONDS)
    _allow_files()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def _allow_files() -> None:
    """Raise the limit of open files: with the usual 1,024, HTTP clients could leave none to the watches."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if 0 <= soft < wanted:  # a negative limit means unlimited
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def supervise(
    config: Config,
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    delay: float = 0.0,
    replay: bool = False,
) -> Supervisor:
    """Return a supervisor of the configured cluster, which sends no request but access reviews for `delay` seconds.

    `kubeconfig` and `context` override the configuration. With `replay`, watches begin at the oldest revision in reach.
    """
    connection = connect(
        str(kubeconfig) if kubeconfig else config.kubernetes.kubeconfig, context or config.kubernetes.context
    )
    supervisor = Supervisor(config, connection, this_build(), delay=delay, replay=replay)
    supervisor.on_evaluation(GarbageCollection(lambda: supervisor.ended_watches).after_evaluation)
    return supervisor


def open_listener(address: str | None, default: Listen) -> socket.socket:
    """Return a listening socket at the `--listen` address, or at the default; raise ConfigError or ServeError."""
    try:
        return listen(parse_listen(address) if address else default)
    except ValueError as error:
        raise ConfigError(f"--listen: {error}") from None


@contextlib.contextmanager
def stop_signals(*stops: asyncio.Event) -> Iterator[None]:
    """Set all `stops` at SIGTERM or SIGINT; a second signal ends the process at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if all(stop.is_set() for stop in stops):
            os._exit(INTERRUPTED)
        for stop in stops:
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _within_files(limits: ServerLimitsConfig) -> ServerLimitsConfig:
    """Return limits with which clients leave most open files to the watches; log it if they differ."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(LEAST_CONNECTIONS, int(MOST_OF_FILES * files))
    if files < 0 or limits.connections <= most:  # a negative limit means unlimited
        return limits
    structlog.get_logger().warning("connections_limited", connections=most, open_files=files)
    return limits.model_copy(update={"connections": most})


def _is_local(listener: socket.socket) -> bool:
    """Return True if only this machine reaches a listening socket."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


@contextlib.asynccontextmanager
async def serving(supervisor: Supervisor, config: Config, listener: socket.socket) -> AsyncIterator[str]:
    """Serve the state of a supervisor at a listening socket while the context lasts; yields the URL.

    Raises:
        ServeError: if the certificate cannot be used.
    """
    certificate = Certificate(config.server.tls) if config.server.tls else None
    if config.server.authorization != "none" and certificate is None and not _is_local(listener):
        structlog.get_logger().warning("tokens_unprotected", message=IN_CLEAR)
    app, history = _application(supervisor, config)
    server = StatusServer(app, listener, _within_files(config.server.limits), certificate, config.server.hosts)
    async with _pushing(supervisor, config, history, listener):
        server.start()
        try:
            yield url(listener, "https" if certificate else "http")
        finally:
            history.close()  # first: open feeds would delay the end of the server
            await server.stop()


@contextlib.asynccontextmanager
async def _pushing(
    supervisor: Supervisor, config: Config, history: History, listener: socket.socket
) -> AsyncIterator[None]:
    """Push the metrics while the context lasts, if that is configured.

    Raises:
        WatchsloError: it cannot begin.
    """
    if config.otlp is None:
        yield
        return
    try:
        from watchslo.app.pushing import pusher  # noqa: PLC0415 - it needs the extra `otlp`
    except ModuleNotFoundError as error:
        raise ConfigError(f"otlp needs the package {error.name}: {install_extra('otlp')}, or remove the key") from None
    found = pusher(supervisor.evaluated, history, config, listener.getsockname()[1])
    found.start()
    try:
        yield
    finally:
        await found.stop()


def _application(supervisor: Supervisor, config: Config) -> tuple[ASGIApp, History]:
    """Return the application, and the history that it shows; closing that ends what outlives an answer."""
    loop = asyncio.get_running_loop()
    latest = SnapshotSource(supervisor.evaluated, loop)
    metrics = MetricsEncoder(Detail(config.detail), config.quantiles)
    authorize = Authorizer(supervisor.review, loop) if config.server.authorization == "kubernetes" else None

    if not config.server.page:
        history = History()
        supervisor.on_evaluation(history.observe)
        return essentials.create_app(latest, supervisor.unhealthy, metrics, history, authorize), history
    # Imported only here: FastAPI and the page take 10 MiB.
    from watchslo.serve.feed import Feed  # noqa: PLC0415
    from watchslo.serve.http import create_app  # noqa: PLC0415

    feed = Feed()
    supervisor.on_evaluation(feed.observe)
    return create_app(latest, supervisor.unhealthy, metrics, feed, authorize), feed
