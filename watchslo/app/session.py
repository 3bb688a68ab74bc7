"""What all measuring commands share: a loop fit for stamps, and a supervisor beside the server that shows it."""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

import uvloop

from watchslo.app.authorization import Authorizer
from watchslo.config import Config, Listen, parse_listen
from watchslo.errors import ConfigError
from watchslo.kube.connect import connect
from watchslo.monitor.supervisor import Supervisor
from watchslo.serve.build import this_build
from watchslo.serve.exposition import MetricsEncoder
from watchslo.serve.feed import Feed
from watchslo.serve.handover import Handover
from watchslo.serve.http import create_app
from watchslo.serve.metrics import Detail
from watchslo.serve.server import Server, listen, url
from watchslo.serve.tls import Certificate

SWITCH_SECONDS = 0.0005  # else a thread that encodes delays stamps by 10 ms at P99, now by 1.4
MOST_FILES = 65_536
INTERRUPTED = 130

T = TypeVar("T")


def run_on_loop(work: Coroutine[None, None, T]) -> T:
    """Runs `work` on the fastest loop there is, with threads that give way quickly, and with files enough."""
    sys.setswitchinterval(SWITCH_SECONDS)
    _allow_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def _allow_files() -> None:
    """Each watch and each reader needs an open file: of the usual 1,024, readers could leave none to the watches."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if 0 <= soft < wanted:  # what is unlimited is negative
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def supervise(
    config: Config, kubeconfig: Path | None = None, context: str | None = None, *, delay: float = 0.0
) -> Supervisor:
    """A supervisor of the configured cluster, which asks nothing for so many seconds.

    What is given here goes before the configuration.
    """
    connection = connect(
        str(kubeconfig) if kubeconfig else config.kubernetes.kubeconfig, context or config.kubernetes.context
    )
    return Supervisor(config, connection, this_build(), delay=delay)


def open_listener(told: str | None, otherwise: Listen) -> socket.socket:
    """The socket that `--listen` tells of, if it is given; raises ConfigError or ServeError."""
    try:
        return listen(parse_listen(told) if told else otherwise)
    except ValueError as error:
        raise ConfigError(f"--listen: {error}") from None


@contextlib.contextmanager
def stop_signals(stop: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set `stop`; a second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def told() -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def serving(supervisor: Supervisor, config: Config, listener: socket.socket) -> AsyncIterator[str]:
    """Shows a supervisor at an open socket, at the URL that it gives, for as long as the context lasts.

    Raises ServeError where the certificate cannot be used.
    """
    loop = asyncio.get_running_loop()
    certificate = Certificate(config.server.tls) if config.server.tls else None
    feed = Feed()
    supervisor.on_evaluation(feed.observe)
    app = create_app(
        Handover(supervisor.snapshot, loop),
        lambda: time.monotonic() - supervisor.lag.last_beat,
        MetricsEncoder(Detail(config.metrics)),
        feed,
        Authorizer(supervisor.review, loop) if config.server.authorization == "kubernetes" else None,
    )
    server = Server(app, listener, config.server.limits, certificate)
    server.start()
    try:
        yield url(listener, "https" if certificate else "http")
    finally:
        feed.close()  # first: who follows it holds up the server's end
        await server.stop()
