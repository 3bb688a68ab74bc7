"""Credentials for one cluster, its address and its TLS context, and their renewal while they are in use."""

import asyncio
import hashlib
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from watchslo.bounded import LONGEST_CREDENTIAL_BYTES, read_file
from watchslo.errors import ConnectError
from watchslo.kube.proxy_rule import DIRECT, ProxyRule
from watchslo.timeline.format import printable

RETRY_SECONDS = 10.0  # between two renewals: an exec plugin may take seconds, and open a browser window
RENEW_SHARE = 0.8  # of the remaining lifetime of a credential, as kubelet renews tokens

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Access:
    """What a request needs in addition to its path. `url` has no slash at its end; `tls` is None for plain HTTP.

    Two values are equal if they make equal requests. TLS contexts are compared by identity: `TlsMaker` returns the same
    context for the same files.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: ProxyRule = DIRECT


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """The cluster that credentials are for: the context of the kubeconfig, None in a pod, and the URL of its server."""

    context: str | None
    server: str

    @property
    def shown_server(self) -> str:
        """The URL without a name and password."""
        scheme, _, rest = self.server.partition("://")
        return printable(f"{scheme}://{rest.rpartition('@')[2]}")

    @property
    def text(self) -> str:
        """Both in a line."""
        source = f"Context {printable(self.context)}" if self.context else "Service account of this pod"
        return f"{source}: {self.shown_server}"


@dataclass(slots=True)
class PluginRun:
    """The exec plugin that runs now, as its kubeconfig names it."""

    command: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one of several apiservers, which replaces that of the credentials; `url` has no slash at its end.

    Its certificate must be valid for `server_name`, or for the host of the URL if that is None.
    """

    url: str
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access, the state of its files before they were read, and when it expires (Unix seconds).

    Credentials from an exec plugin are `costly`.
    """

    access: Access
    files: Mapping[str, Stamp | None]
    expires_wall: float = float("inf")
    costly: bool = False


class CredentialSource:
    """Provides and renews the credentials for one cluster. Clients may share it; the code that creates it closes it.

    Credentials are loaded again when one of their files changes, before they expire, and after the apiserver has
    rejected them. Callers wait only if no usable credentials are cached. A caller that gives up does not end a load: a
    plugin would ask its user again. Credentials that cannot be loaded again stay in use until they are rejected,
    because a kubeconfig is not always written in one step.

    Changes are detected by calls of `access`, which ticks make twice per second. `place` is known before they are
    loaded; None for simulated clusters.
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[Credentials]],
        *,
        place: ClusterPlace | None = None,
        plugin: PluginRun | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.place = place
        self._plugin = plugin or PluginRun()
        self._load = load
        self._clock = clock
        self._wall = wall
        self._renewal: asyncio.Task[ConnectError | None] | None = None
        self._listeners: list[Callable[[], object]] = []
        self._credentials: Credentials | None = None
        self._error: ConnectError | None = None
        self._rejected = False
        self._renew_at = self._expires_at = float("inf")
        self._tried: Mapping[str, Stamp | None] = {}  # the files as they were before the last attempt
        self._not_before = -float("inf")

    def on_change(self, listener: Callable[[], object]) -> None:
        """Call `listener` on the event loop each time that different credentials come into use."""
        self._listeners.append(listener)

    async def access(self) -> Access:
        """Return credentials that are not known to be invalid; raises ConnectError if there are none."""
        if self._credentials is None or self._rejected or self._clock() >= self._expires_at:
            if (error := await asyncio.shield(self._renewing())) is not None:
                raise error
        elif self._stale(self._credentials) and self._may_load(self._credentials):
            self._renewing()
        assert self._credentials is not None
        return self._credentials.access

    @property
    def context(self) -> str | None:
        """The name of the kubeconfig's context; None in a pod."""
        return self.place.context if self.place else None

    @property
    def awaited(self) -> str | None:
        """A sentence that names the exec plugin whose credentials are awaited now, if any are."""
        plugin = self._plugin.command
        return f"Waiting for credentials of the exec plugin {plugin}." if plugin else None

    @property
    def url(self) -> str | None:
        """The URL that they are for; None before they have been loaded."""
        return self._credentials.access.url if self._credentials else None

    async def are_verified(self) -> bool:
        """Return True if they are sent only to servers whose certificates are verified."""
        try:
            tls = (await self.access()).tls
        except ConnectError:
            return False
        return tls is not None and tls.verify_mode is ssl.CERT_REQUIRED

    def reject(self, access: Access) -> None:
        """Record that the apiserver rejected these credentials."""
        if self._credentials is not None and self._credentials.access is access:
            self._rejected = True

    async def close(self) -> None:
        """Cancel a renewal in progress."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    def _renewing(self) -> "asyncio.Task[ConnectError | None]":
        """Return the renewal in progress, which begins now if there is none; it returns its error."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._try_to_renew())
        return self._renewal

    def _stale(self, credentials: Credentials) -> bool:
        return self._rejected or self._clock() >= self._renew_at or stamps(credentials.files) != credentials.files

    def _may_load(self, credentials: Credentials) -> bool:
        """Return True if a new attempt is due; at once if files changed, as a pair of files changes one by one."""
        return self._clock() >= self._not_before or (not credentials.costly and stamps(self._tried) != self._tried)

    async def _try_to_renew(self) -> ConnectError | None:
        try:
            await self._renew()
        except ConnectError as error:
            return error
        return None

    async def _renew(self) -> None:
        old = self._credentials
        if not (self._clock() >= self._not_before if old is None else self._may_load(old)):
            if self._error is not None:
                raise self._error
            return
        await self._replace(old)

    async def _replace(self, old: Credentials | None) -> None:
        if old is not None:
            self._tried = stamps(old.files)
        try:
            new = await self._load()
        except ConnectError as error:
            self._not_before = self._clock() + RETRY_SECONDS
            self._error = error if old is None or self._rejected else None
            if self._error is not None:
                raise
        else:
            self._not_before = self._clock() + RETRY_SECONDS
            self._error, self._rejected = None, False
            self._adopt(old, new)

    def _adopt(self, old: Credentials | None, new: Credentials) -> None:
        lifetime, now = new.expires_wall - self._wall(), self._clock()
        self._renew_at, self._expires_at = now + RENEW_SHARE * lifetime, now + lifetime
        self._tried = new.files
        if old is not None and new.access == old.access:
            self._credentials = replace(new, access=old.access)  # the same object, for `reject`
            return
        self._credentials = new
        if old is not None:
            for listener in self._listeners:
                asyncio.get_running_loop().call_soon(listener)


def stamps(paths: Iterable[str]) -> dict[str, Stamp | None]:
    """Return values that change if files are written or, as in mounted volumes, replaced; None for a missing file."""
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - twice as fast as Path, and called before every request
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def clean_token(text: str, origin: str) -> str:
    """Return a token that is valid in a header, without the newline at the end of files."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise ConnectError(f"{origin}: contains no token; put one there")
    return token


def read_text(path: str) -> str:
    """Return the content of a file of the credentials; raises ConnectError."""
    try:
        return read_file(path, LONGEST_CREDENTIAL_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        raise ConnectError(f"{path}: {reason[0].lower()}{reason[1:]}; put a readable file there") from None


def tls_context(
    ca_file: str | None, certificate: str | None = None, key: str | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """Return a TLS context as client-go makes it, with the system's CAs by default, and an optional client certificate.

    Raises ConnectError if a file cannot be used.
    """
    try:
        _check_length(ca_file)
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise ConnectError(f"{ca_file}: contains no CA certificate in PEM form; put the cluster's CA there") from None
    # Clusters use CAs without key identifiers. Go accepts them, but Python 3.13 does not by default.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        try:
            _check_length(certificate, key)
            context.load_cert_chain(certificate, key, password=lambda: b"")  # never prompt on the terminal
        except (OSError, ssl.SSLError):
            raise ConnectError(
                f"{certificate}: does not match the key {key}; put a client certificate and its key in PEM form there"
            ) from None
    return context


def _check_length(*paths: str | None) -> None:
    """Raise OSError if a file is too long: OpenSSL reads it to its end."""
    for path in filter(None, paths):
        read_file(path, LONGEST_CREDENTIAL_BYTES)


class TlsMaker:
    """Makes TLS contexts, and returns the same context while the content of its files is the same.

    aiohttp reuses connections only for the context that they were opened with. A new context therefore means new
    connections, with the new certificate and checked against the new CA.
    """

    def __init__(self) -> None:
        self._made_of: tuple[object, ...] | None = None
        self._context: ssl.SSLContext

    def make(
        self, ca_file: str | None, certificate: str | None = None, key: str | None = None, *, verify: bool = True
    ) -> ssl.SSLContext:
        """Return the context that `tls_context` makes for these arguments."""
        made_of = (verify, *map(_digest, (ca_file, certificate, key)))
        if made_of != self._made_of:
            self._context = tls_context(ca_file, certificate, key, verify=verify)
            self._made_of = made_of
        return self._context


def _digest(path: str | None) -> bytes | None:
    """Return the hash of a file's content, empty if it cannot be read, which making the context will report."""
    try:
        return None if path is None else hashlib.sha256(read_file(path, LONGEST_CREDENTIAL_BYTES)).digest()
    except OSError:
        return b""
