"""Sources of the view of `watchslo top`: a daemon over HTTP, or a local measurement in another thread."""

import asyncio
import errno
import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import urlsplit

import aiohttp

from watchslo.app.details import ShownWatch, own_details, read_details
from watchslo.app.session import run_on_loop, supervise
from watchslo.app.view import UnreadableError, View, read, view_of
from watchslo.config.model import Config
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.credentials import clean_token, read_text, tls_context
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.task_supervisor import TaskSupervisor
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Timeline

STATUS_PATH, DETAILS_PATH = "/api/v1/status", "/api/v1/watches"
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.2


class Source(Protocol):
    """Returns the newest view while its context is open."""

    @property
    def place(self) -> str:
        """The URL of the daemon, or a description of the measurement."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def view(self) -> View:
        """Return the newest view; raise ConnectError if there is none now but may be later."""

    async def details(self, name: str) -> Sequence[ShownWatch]:
        """Return all about the watches with this name or key; raise ConnectError as `view` does."""


@dataclass(frozen=True, slots=True)
class DaemonCredentials:
    """The token for a daemon, and the CA that its certificate must be signed by."""

    token_file: Path | None = None
    ca_file: Path | None = None
    insecure: bool = False


class Daemon:
    """A `watchslo run` or `demo` that serves its status at a URL."""

    def __init__(self, url: str, credentials: DaemonCredentials) -> None:
        """Read the credentials; raise WatchsloError if the URL or the credentials cannot be used."""
        self.place = _address(url)
        self._credentials = credentials
        ca_file = str(credentials.ca_file) if credentials.ca_file else None
        self._context = tls_context(ca_file, verify=not credentials.insecure)
        self._token = ""
        self._refresh_token()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._context), timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def view(self) -> View:
        try:
            return read(await self._read(STATUS_PATH))
        except UnreadableError:
            raise ConnectError(_UNREADABLE) from None

    async def details(self, name: str) -> Sequence[ShownWatch]:
        try:
            return read_details(await self._read(DETAILS_PATH, watch=name))
        except _NotFoundError:
            return ()
        except UnreadableError:
            raise ConnectError(_UNREADABLE) from None

    async def _read(self, path: str, **query: str) -> bytes:
        """Return the body of an answer; raise ConnectError, and for a 404 `_NotFoundError`."""
        self._refresh_token()
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        url = self.place + path
        try:
            async with self._session.get(url, params=query, headers=headers, allow_redirects=False) as answer:
                if answer.status != HTTPStatus.OK:
                    error = _NotFoundError if answer.status == HTTPStatus.NOT_FOUND else ConnectError
                    raise error(_REFUSALS.get(answer.status, f"it answers {answer.status}"))
                return await answer.read()
        except (aiohttp.ClientError, OSError) as error:  # timeouts are OSErrors too
            raise ConnectError(_failure(error)) from None

    def _refresh_token(self) -> None:
        """Read the token again, because tokens are rotated. A pipe can be read only once: its token is kept."""
        if file := self._credentials.token_file:
            text = read_text(str(file))
            if text.strip() or not self._token:
                self._token = clean_token(text, str(file))


def _address(url: str) -> str:
    """Return scheme, host and path of a URL; `127.0.0.1:9477` means http."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ConfigError(f"{url} is not the URL of a daemon; write for example http://127.0.0.1:9477")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError("the URL contains more than an address; write for example http://127.0.0.1:9477")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


class _NotFoundError(ConnectError):
    """The server has no such path, or no such watch."""


_UNREADABLE = "the answer is not from a known version of watchslo; check the URL"
_REFUSALS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "it requires a valid token; pass one with --token-file",
    HTTPStatus.FORBIDDEN: "this identity may not read the status; grant it the verb get on the path /",
    HTTPStatus.NOT_FOUND: "the server is not a watchslo daemon; check the URL",
}


def _failure(error: Exception) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {ANSWER_SECONDS:g} s"
        case aiohttp.ClientSSLError():
            return _untrusted(error)
        case aiohttp.ClientConnectorDNSError():
            return "its name does not resolve; check the URL"
        case aiohttp.ClientConnectorError() if error.os_error.errno == errno.ECONNREFUSED:
            return "the connection is refused; check that the daemon runs"
        case OSError(errno=int(number)):
            return f"the connection fails: {os.strerror(number).lower()}"
        case _:
            return "the connection was cut, or the server does not speak HTTP"


def _untrusted(error: aiohttp.ClientSSLError) -> str:
    cause = getattr(error, "certificate_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({cause.verify_message}); pass its CA with --ca-file"
    return "it does not speak TLS; write http:// instead of https://"


class Measurement:
    """A supervisor with its own loop in its own thread, so that drawing does not delay timestamps."""

    place = "local measurement"

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        self._supervise = partial(supervise, Config(), kubeconfig, context)
        self._over = threading.Event()
        self._first = Future[None]()
        self._timeline = Timeline()
        self._latest: Snapshot
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

    async def details(self, name: str) -> Sequence[ShownWatch]:
        """Return the details as of the newest evaluation, from the measuring thread, which owns the timeline."""
        self._raise_what_ended_it()
        reading = asyncio.run_coroutine_threadsafe(self._details(name), self._loop)
        return await asyncio.wrap_future(reading)

    async def _details(self, name: str) -> Sequence[ShownWatch]:
        return own_details(self._timeline, name)

    def _raise_what_ended_it(self) -> None:
        if self._done.done():
            self._done.result()

    async def _measure(self) -> None:
        """Measure in the other thread until `_over` is set; the threads share only frozen snapshots."""
        supervisor, stop, self._loop = self._supervise(), asyncio.Event(), asyncio.get_running_loop()
        supervisor.on_evaluation(self._remember)
        async with TaskSupervisor(stop) as tasks:
            tasks.start("snapshots", partial(self._keep_showing, supervisor, stop))
            await supervisor.run(stop)

    def _remember(self, snapshot: Snapshot) -> None:
        """Update the timeline on the measuring thread: cheap, because there are few watches here."""
        self._timeline.observe(snapshot)

    async def _keep_showing(self, supervisor: Supervisor, stop: asyncio.Event) -> None:
        self._latest = await supervisor.snapshot()
        self._first.set_result(None)
        while not self._over.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            self._latest = await supervisor.snapshot()
        stop.set()
