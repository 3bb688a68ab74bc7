"""Sources of the view of `watchslo top`: a daemon over HTTP, or a local measurement in another thread."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from watchslo.api.feed import WatchDetail
from watchslo.api.part import UnreadableError
from watchslo.app.details import own_details, read_details
from watchslo.app.http_endpoint import DaemonCredentials, address_of
from watchslo.app.session import run_on_loop, supervise
from watchslo.app.status_client import DETAILS_PATH, UNREADABLE, DaemonAddress, NotFoundError, StatusClient
from watchslo.app.terminal import View, read, view_of
from watchslo.config.model import Config
from watchslo.errors import ConnectError
from watchslo.monitor.readiness import StartState
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Timeline

LOOK_SECONDS = 0.2


class Source(Protocol):
    """Returns the newest view while its context is open."""

    @property
    def place(self) -> str:
        """The URL of the daemon, or the context and server of the measurement."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def view(self) -> View:
        """Return the newest view; raise ConnectError if there is none now but may be later."""

    async def details(self, name: str) -> Sequence[WatchDetail]:
        """Return all about the watches with this name or key; raise ConnectError as `view` does."""


class Daemon:
    """A `watchslo run` or `demo` that serves its status at a URL."""

    def __init__(self, url: str, credentials: DaemonCredentials) -> None:
        """Read the credentials; raise WatchsloError if the URL or the credentials cannot be used."""
        self.place = address_of(url)
        self._address = DaemonAddress(self.place)
        self._client = StatusClient(credentials)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.__aexit__()

    async def view(self) -> View:
        try:
            return read((await self._client.read(self._address)).body)
        except UnreadableError:
            raise ConnectError(UNREADABLE) from None

    async def details(self, name: str) -> Sequence[WatchDetail]:
        try:
            return read_details((await self._client.read(self._address, DETAILS_PATH, {"watch": name})).body)
        except NotFoundError:
            return ()
        except UnreadableError:
            raise ConnectError(UNREADABLE) from None


class Measurement:
    """A supervisor with its own loop in its own thread, so that drawing does not delay timestamps.

    `start` is what its start waits for.
    """

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        self.place = "local measurement"  # until its cluster is known
        self._supervise = partial(supervise, Config(), kubeconfig, context)
        self._over = threading.Event()
        self._first = Future[None]()
        self._timeline = Timeline()
        self._latest: Snapshot
        self.start = StartState.OPENING
        self._loop: asyncio.AbstractEventLoop
        self._done: asyncio.Future[None]

    async def __aenter__(self) -> Self:
        """Return when the first snapshot exists; raise the error that prevents the start."""
        pool = ThreadPoolExecutor(1)
        self._done = asyncio.wrap_future(pool.submit(lambda: run_on_loop(self._measure())))
        pool.shutdown(wait=False)  # the thread ends with its work
        begun = (asyncio.wrap_future(self._first), self._done)
        await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        self._raise_what_ended_it()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._done

    async def view(self) -> View:
        self._raise_what_ended_it()
        return view_of(self._latest, account=self._timeline.account)

    async def details(self, name: str) -> Sequence[WatchDetail]:
        """Return the details as of the newest evaluation, from the measuring thread, which owns the timeline."""
        self._raise_what_ended_it()
        reading = asyncio.run_coroutine_threadsafe(self._details(name), self._loop)
        return await asyncio.wrap_future(reading)

    async def _details(self, name: str) -> Sequence[WatchDetail]:
        return own_details(self._timeline, name)

    def _raise_what_ended_it(self) -> None:
        if self._done.done():
            self._done.result()

    async def _measure(self) -> None:
        """Measure in the other thread until `_over` is set; the threads share only frozen snapshots."""
        supervisor, stop, self._loop = self._supervise(), asyncio.Event(), asyncio.get_running_loop()
        if supervisor.place:
            self.place = supervisor.place.text
        supervisor.on_evaluation(self._timeline.observe)  # cheap on the measuring thread: there are few watches here
        async with TaskSupervisor(stop) as tasks:
            tasks.start("snapshots", partial(self._keep_showing, supervisor, stop))
            await supervisor.run(stop)

    async def _keep_showing(self, supervisor: Supervisor, stop: asyncio.Event) -> None:
        await self._show(supervisor)
        self._first.set_result(None)
        while not self._over.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            await self._show(supervisor)
        stop.set()

    async def _show(self, supervisor: Supervisor) -> None:
        self._latest, self.start = await supervisor.snapshot(), supervisor.start
