"""Where a view comes from: a daemon that is asked by HTTP, or a measurement of our own beside the screen."""

import asyncio
import errno
import os
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import urlsplit

import aiohttp

from watchslo.app.session import run_on_loop, supervise
from watchslo.app.view import UnreadableError, View, read, view_of
from watchslo.config import Config
from watchslo.errors import ConfigError, ConnectError
from watchslo.history.chronicle import Chronicle
from watchslo.kube.access import clean_token, read_text, tls_context
from watchslo.monitor.crew import Crew
from watchslo.monitor.supervisor import Supervisor
from watchslo.snapshot import Snapshot

PATH = "/api/v1/status"
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.2


class Source(Protocol):
    """Gives the newest view; a context, in which it can be asked."""

    @property
    def place(self) -> str:
        """Where it is, for people."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def view(self) -> View:
        """The newest view; raises ConnectError if there is none now, but may be later."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a daemon wants to see, and by what it is believed."""

    token_file: Path | None = None
    ca_file: Path | None = None
    insecure: bool = False


class Daemon:
    """A `watchslo run` or `demo` that serves its status at a URL."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        """Raises WatchsloError for what is no URL, or no credentials."""
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
        self._refresh_token()
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            async with self._session.get(self.place + PATH, headers=headers, allow_redirects=False) as answer:
                body = await answer.read()
                if answer.status != HTTPStatus.OK:
                    raise ConnectError(_REFUSALS.get(answer.status, f"it answers {answer.status}"))
                return read(body)
        except UnreadableError:
            raise ConnectError("what answers is no watchslo of a version known here; check the URL") from None
        except (aiohttp.ClientError, OSError) as error:  # timeouts are OSErrors too
            raise ConnectError(_failure(error)) from None

    def _refresh_token(self) -> None:
        """Tokens are rotated in their file. One that comes from a pipe can be read once, and is kept."""
        if file := self._credentials.token_file:
            text = read_text(str(file))
            if text.strip() or not self._token:
                self._token = clean_token(text, str(file))


def _address(url: str) -> str:
    """Scheme, host and path of a URL; `127.0.0.1:9477` is one too."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ConfigError(f"{url} is no URL of a daemon; write for example http://127.0.0.1:9477")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError("the URL holds more than an address; write for example http://127.0.0.1:9477")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


_REFUSALS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "it does not know who we are; name a file with a valid token as --token-file",
    HTTPStatus.FORBIDDEN: "this identity may not read there; grant it the verb get on the path /",
    HTTPStatus.NOT_FOUND: "what answers is no watchslo; check the URL",
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
            return "nobody listens there"
        case OSError(errno=int(number)):
            return f"the connection fails: {os.strerror(number).lower()}"
        case _:
            return "the connection was cut, or what answers speaks no HTTP"


def _untrusted(error: aiohttp.ClientSSLError) -> str:
    cause = getattr(error, "certificate_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({cause.verify_message}); name its CA with --ca-file"
    return "it speaks no TLS; write http:// if that is meant"


class Measurement:
    """A supervisor of our own, on a loop and a thread of its own: what the screen draws delays no stamp."""

    place = "measured from here"

    def __init__(self, kubeconfig: Path | None, context: str | None) -> None:
        self._supervise = partial(supervise, Config(), kubeconfig, context)
        self._over = threading.Event()
        self._first = Future[None]()
        self._chronicle = Chronicle()
        self._latest: Snapshot
        self._done: asyncio.Future[None]

    async def __aenter__(self) -> Self:
        """Returns when there is something to see; raises what keeps it from beginning."""
        pool = ThreadPoolExecutor(1)
        self._done = asyncio.wrap_future(pool.submit(lambda: run_on_loop(self._measure())))
        pool.shutdown(wait=False)  # its thread ends with the work
        begun = (asyncio.wrap_future(self._first), self._done)
        await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        self._raise_what_ended_it()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._done

    async def view(self) -> View:
        self._raise_what_ended_it()
        return view_of(self._latest, account=self._chronicle.account)

    def _raise_what_ended_it(self) -> None:
        if self._done.done():
            self._done.result()

    async def _measure(self) -> None:
        """Goes on in the other thread until `_over` is set; threads share nothing but frozen snapshots."""
        supervisor, stop = self._supervise(), asyncio.Event()
        supervisor.on_evaluation(self._remember)
        async with Crew(stop) as crew:
            crew.hire("snapshots", partial(self._keep_showing, supervisor, stop))
            await supervisor.run(stop)

    def _remember(self, snapshot: Snapshot) -> None:
        """Costs the thread that measures little: there are few watches here."""
        self._chronicle.observe(snapshot)

    async def _keep_showing(self, supervisor: Supervisor, stop: asyncio.Event) -> None:
        self._latest = supervisor.snapshot()
        self._first.set_result(None)
        while not self._over.is_set():
            await asyncio.sleep(LOOK_SECONDS)
            self._latest = supervisor.snapshot()
        stop.set()
