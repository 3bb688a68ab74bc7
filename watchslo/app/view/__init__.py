"""`watchslo view`: shows all instances of a cluster, on a page, as a table or as JSON."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import structlog
from rich.table import Table

from watchslo.app import logs
from watchslo.app.authorization import Authorizer
from watchslo.app.exit_codes import EXIT_CODES
from watchslo.app.http_endpoint import NO_CREDENTIALS, DaemonCredentials
from watchslo.app.session import open_listener, run_on_loop, stop_signals
from watchslo.app.status_client import StatusClient
from watchslo.app.table import plain_console
from watchslo.app.view.instances import Instances
from watchslo.config.sections.limits import LimitsConfig
from watchslo.config.sections.server import ServerLimitsConfig, TlsConfig
from watchslo.config.values import Listen
from watchslo.kube.connect import connect
from watchslo.kube.limiter import Limiter
from watchslo.kube.reviews import review
from watchslo.model import SERVICE
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.overview.merge import STALE_SECONDS, Overview, merge
from watchslo.serve.auth import Authorize
from watchslo.serve.overview import cells, create_overview_app, document_of
from watchslo.serve.server import StatusServer, url
from watchslo.serve.tls import Certificate
from watchslo.timeline.format import duration, printable
from watchslo.timeline.verdict import Level

ROUND_SECONDS = 5.0  # between two rounds: instances judge their watches as often
LOCAL = Listen("127.0.0.1", 9478)  # without --listen, the page is for this machine only
NOT_ASKED = "Cannot tell yet: the instances have not been asked."
STYLES = {Level.GOOD: "green", Level.BAD: "bold red", Level.UNKNOWN: "yellow"}
HEADINGS = ("PART", "INSTANCE", "AGE", "VERSION", "WATCHES", "")
NUMBERS = ("AGE", "WATCHES")


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The instances to ask, by their URLs and by names that have the addresses of many, and what to do with that."""

    urls: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    credentials: DaemonCredentials = NO_CREDENTIALS
    listen: str | None = None
    output: Literal["page", "table", "json"] = "page"


@dataclass(frozen=True, slots=True)
class Protection:
    """Which readers may see the page, and the certificate that it is served with."""

    authorization: Literal["none", "kubernetes"] = "none"
    cert_dir: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None


NO_PROTECTION = Protection()


def view(options: ViewOptions, protection: Protection = NO_PROTECTION) -> int:
    """Serve the page until a signal, or print one result; return the exit code. Raises WatchsloError."""
    logs.set_up("console", "info" if options.output == "page" else "critical")
    if options.output == "page":
        with open_listener(options.listen, LOCAL) as listener:
            run_on_loop(_serve(options, protection, listener))
        return 0
    overview = run_on_loop(_once(options))
    if options.output == "json":
        document = msgspec.json.encode(document_of(overview))
        print(msgspec.json.format(document).decode())  # noqa: T201 - the output of the command
    else:
        _print(overview)
    return EXIT_CODES[overview.level]


async def _once(options: ViewOptions) -> Overview:
    async with StatusClient(options.credentials) as client:
        return await Instances(options.urls, options.services, client).ask()


# --- the table --------------------------------------------------------------------------------------------------------


def _print(overview: Overview) -> None:
    console = plain_console()
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(overview.rows))
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in NUMBERS else "left", overflow="fold")
    for row in overview.rows:
        table.add_row(*map(printable, cells(row)), style=STYLES[row.level])
    console.print(table)
    for finding in overview.more_findings:
        console.print(printable(finding.text))
    cluster = f"{overview.cluster}: " if overview.cluster else ""
    console.print(printable(f"{cluster}{overview.text}"), style=STYLES[overview.level])


# --- the page ---------------------------------------------------------------------------------------------------------


class NewestOverview:
    """The newest overview, which one thread sets and another one reads; an old one has no verdict."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.set(merge((), (NOT_ASKED,), time.time()))

    def set(self, overview: Overview) -> None:
        self._overview, self._since = overview, self._clock()

    def __call__(self) -> Overview:
        overview, age = self._overview, self._clock() - self._since
        if age <= STALE_SECONDS:
            return overview
        return replace(overview, level=Level.UNKNOWN, text=f"Cannot tell: no instance was asked for {duration(age)}.")


async def _serve(options: ViewOptions, protection: Protection, listener: socket.socket) -> None:
    log, stop, newest = structlog.get_logger(), asyncio.Event(), NewestOverview()
    certificate = Certificate(_tls(protection.cert_dir)) if protection.cert_dir else None
    with stop_signals(stop):
        async with StatusClient(options.credentials) as client, _authorizer(protection) as authorize:
            instances = Instances(options.urls, options.services, client)
            app = create_overview_app(newest, authorize)
            server = StatusServer(app, listener, ServerLimitsConfig(), certificate)
            server.start()
            log.info("listening", url=url(listener, "https" if certificate else "http"))
            try:
                async with TaskSupervisor(stop) as tasks:
                    tasks.start("instances", partial(_keep_asking, instances, newest))
                    await stop.wait()
            finally:
                await server.stop()
    log.info("stopped")


async def _keep_asking(instances: Instances, newest: NewestOverview) -> None:
    while True:
        newest.set(await instances.ask())
        await asyncio.sleep(ROUND_SECONDS)


def _tls(folder: Path) -> TlsConfig:
    return TlsConfig.model_validate({"certFile": str(folder / "tls.crt"), "keyFile": str(folder / "tls.key")})


@contextlib.asynccontextmanager
async def _authorizer(protection: Protection) -> AsyncIterator[Authorize | None]:
    """Yield the access check by the cluster, or None if every client may read."""
    if protection.authorization == "none":
        yield None
        return
    credentials = connect(str(protection.kubeconfig) if protection.kubeconfig else None, protection.context)
    apiserver = Apiserver(SERVICE, credentials, Limiter(LimitsConfig().requests_per_second))
    async with apiserver.client:
        yield Authorizer(partial(review, apiserver.client), asyncio.get_running_loop())
    await credentials.close()
