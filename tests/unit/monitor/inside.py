"""The whole monitor, running against a cluster in memory."""

import asyncio
import functools
import ssl
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar, cast

import pytest

from tests.unit.monitor.cluster import Cluster, nowhere
from watchslo.config.model import Config
from watchslo.kube.credentials import Access, Credentials, CredentialSource
from watchslo.model import Resource
from watchslo.monitor.readiness import StartState
from watchslo.monitor.supervisor import Supervisor
from watchslo.snapshot import BuildReading, Snapshot, WatchReading

BUILD = BuildReading("1.2.3", "0123abc", "3.12.1")
STARTED_SECONDS = 20.0
WALL_SECONDS = 1_700_000_000.0

T = TypeVar("T")


def config(*resources: str, **more: Any) -> Config:
    """Return the configuration of a file that watches these resources, or the default one."""
    watches = [{"resource": resource} for resource in resources]
    return Config.model_validate({"watch": watches, **more} if resources else more)


def set_clocks(loop: asyncio.AbstractEventLoop, patched: pytest.MonkeyPatch) -> None:
    """Let the time of a loop drive all clocks."""
    patched.setattr(time, "monotonic", loop.time)
    patched.setattr(time, "time", lambda: WALL_SECONDS + loop.time())
    patched.setattr("watchslo.monitor.tasks.lag.cpu_wait_reader", lambda: nullcontext(lambda: 0.0))
    patched.setattr("watchslo.monitor.tasks.lag.suspended_seconds", lambda: 0.0)


def serve(cluster: Cluster, patched: pytest.MonkeyPatch) -> None:
    """Let every `Apiserver` that is created from now on talk to a cluster."""
    patched.setattr("watchslo.monitor.apiservers.apiserver.Client", cluster.client)
    patched.setattr("watchslo.kube.connections.new_session", cluster.session)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    work.close()
    raise AssertionError("it waits")


@functools.cache
def verified_tls() -> ssl.SSLContext:
    """Return the context of all clients that verify: to load the certificates of the machine takes 40 ms."""
    return ssl.create_default_context()


def unverified_tls() -> ssl.SSLContext:
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


def credentials(tls: ssl.SSLContext | None, url: str = "https://nowhere.test") -> CredentialSource:
    async def load() -> Credentials:
        return Credentials(Access(url, tls=tls), {})

    return CredentialSource(load)


def verified() -> CredentialSource:
    return credentials(verified_tls())


class Running:
    """A supervisor that runs."""

    def __init__(
        self, made: Config, delay: float = 0.0, credentials: CredentialSource | None = None, *, replay: bool = False
    ) -> None:
        usual = verified if made.kubernetes.apiservers == "each" else nowhere
        self.supervisor = Supervisor(made, credentials or usual(), BUILD, lambda: 0.5, delay=delay, replay=replay)
        self.stop = asyncio.Event()

    def snapshot(self) -> Snapshot:
        """Return the snapshot of this moment; it takes no time on a loop whose time jumps."""
        return at_once(self.supervisor.snapshot())

    def stream(self, label: str) -> WatchReading:
        return next(stream for stream in self.snapshot().watches if stream.watch == label)

    @property
    def labels(self) -> list[str]:
        return [stream.watch for stream in self.snapshot().watches]

    def start(self) -> StartState:
        return self.supervisor.start

    def not_ready(self) -> tuple[str, ...]:
        return self.snapshot().monitor.not_ready


@asynccontextmanager
async def running(
    made: Config,
    start: float = STARTED_SECONDS,
    delay: float = 0.0,
    credentials: CredentialSource | None = None,
    *,
    replay: bool = False,
) -> AsyncIterator[Running]:
    run = Running(made, delay, credentials, replay=replay)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(run.supervisor.run(run.stop))
        await asyncio.sleep(start)
        assert not task.done()
        yield run
        run.stop.set()
        async with asyncio.timeout(1):
            await task


async def keep_writing(cluster: Cluster, *resources: Resource, seconds: float = 60, gap: float = 0.1) -> None:
    for _ in range(round(seconds / gap)):
        for resource in resources:
            cluster.write(resource)
        await asyncio.sleep(gap)
