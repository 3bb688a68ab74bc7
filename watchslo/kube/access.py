"""Access to one cluster: its address, who we are, how TLS is made; and the renewal of all that while it is in use."""

import asyncio
import contextlib
import hashlib
import ipaddress
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from watchslo.errors import ConnectError

RETRY_SECONDS = 10.0  # between two renewals: an exec plugin may cost seconds, and a browser window
RENEW_SHARE = 0.8  # of what is left of a credential's life, as kubelet does with tokens

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Access:
    """What a request needs besides its path. `url` has no slash at its end; `tls` is absent for plain HTTP.

    Two are equal if a request cannot tell them apart: what TLS is made of is compared by `TlsMaker`, which makes no
    second context of the same.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Address:
    """Where one of several apiservers is, instead of where the credentials say; `url` has no slash at its end.

    Its certificate must be valid for `server_name`, or without one for the host of the URL.
    """

    url: str
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access, the files it was made from as they were before they were read, and when it expires (Unix seconds).

    What a plugin had to be asked for is `costly`.
    """

    access: Access
    files: Mapping[str, Stamp | None]
    expires_wall: float = float("inf")
    costly: bool = False


class Connection:
    """Keeps the access to one cluster fresh: several clients may share it, and who made it closes it.

    It is loaded again when one of its files changes, before it expires, and after the apiserver has rejected it. Only
    who has nothing that could still be accepted waits for that; all else goes on with what there is. What cannot be
    loaded again stays in use until it is rejected: a kubeconfig is not always written at once.

    Changes are noticed by asking for access, which ticks do twice a second.
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[Credentials]],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._load = load
        self._clock = clock
        self._wall = wall
        self._loading = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[], object]] = []
        self._credentials: Credentials | None = None
        self._error: ConnectError | None = None
        self._rejected = False
        self._renew_at = self._expires_at = float("inf")
        self._tried: Mapping[str, Stamp | None] = {}  # the files as they were before the last attempt
        self._not_before = -float("inf")

    def on_change(self, listener: Callable[[], object]) -> None:
        """Calls it on the loop each time that the access in use was replaced by a different one."""
        self._listeners.append(listener)

    async def access(self) -> Access:
        """Raises ConnectError where there is none to be had."""
        if self._credentials is None or self._rejected or self._clock() >= self._expires_at:
            await self._renew()
        elif not self._renewing and self._stale(self._credentials) and self._may_load(self._credentials):
            self._renewal = asyncio.create_task(self._renew_aside())
        assert self._credentials is not None
        return self._credentials.access

    def reject(self, access: Access) -> None:
        """The apiserver does not know who this is."""
        if self._credentials is not None and self._credentials.access is access:
            self._rejected = True

    async def close(self) -> None:
        """Ends a renewal that is under way."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    @property
    def _renewing(self) -> bool:
        return self._renewal is not None and not self._renewal.done()

    def _stale(self, credentials: Credentials) -> bool:
        return self._rejected or self._clock() >= self._renew_at or stamps(credentials.files) != credentials.files

    def _may_load(self, credentials: Credentials) -> bool:
        """Whether it is time to try again; at once where files have changed since, as pairs do one by one."""
        return self._clock() >= self._not_before or (not credentials.costly and stamps(self._tried) != self._tried)

    async def _renew_aside(self) -> None:
        with contextlib.suppress(ConnectError):  # rejected meanwhile: who asks next is told
            await self._renew()

    async def _renew(self) -> None:
        async with self._loading:
            old = self._credentials
            if old is not None and not self._stale(old):
                return  # somebody else renewed it
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
            self._credentials = replace(new, access=old.access)  # that it is the same can then be seen
            return
        self._credentials = new
        if old is not None:
            for listener in self._listeners:
                asyncio.get_running_loop().call_soon(listener)


def stamps(paths: Iterable[str]) -> dict[str, Stamp | None]:
    """What tells whether files were written or, as in mounted volumes, replaced: None for one that is not there."""
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - twice as fast as Path, and asked before every request
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def clean_token(text: str, origin: str) -> str:
    """A token as a header may carry it: those in files end in a newline."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise ConnectError(f"{origin}: holds no token; put one there")
    return token


def read_text(path: str) -> str:
    """The content of a file that belongs to the credentials."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise ConnectError(f"{path}: {reason.lower()}; put a readable file there") from None


def tls_context(
    ca_file: str | None, certificate: str | None = None, key: str | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """TLS as client-go makes it; without a CA the system's. A certificate with its key says who we are."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise ConnectError(f"{ca_file}: holds no CA certificate in PEM form; put the cluster's CA there") from None
    # Go accepts CAs without key identifiers, and clusters have them; Python 3.13 would not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password=lambda: b"")  # never ask the terminal for one
        except (OSError, ssl.SSLError):
            raise ConnectError(
                f"{certificate}: is no client certificate for the key {key}; put a matching pair in PEM form there"
            ) from None
    return context


class TlsMaker:
    """Makes TLS, anew only where something else is to be made of it.

    Connections are kept for who asks with the very context that they were opened with: another one means new
    connections, with the new certificate and checked against the new CA.
    """

    def __init__(self) -> None:
        self._made_of: tuple[object, ...] | None = None
        self._context: ssl.SSLContext

    def make(
        self, ca_file: str | None, certificate: str | None = None, key: str | None = None, *, verify: bool = True
    ) -> ssl.SSLContext:
        """As `tls_context`."""
        made_of = (verify, *map(_digest, (ca_file, certificate, key)))
        if made_of != self._made_of:
            self._context = tls_context(ca_file, certificate, key, verify=verify)
            self._made_of = made_of
        return self._context


def _digest(path: str | None) -> bytes | None:
    """Of what a file holds; none of one that cannot be read, which TLS will complain about."""
    try:
        return None if path is None else hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:
        return b""


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a URL, by the rules of Go's `httpproxy`."""
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name)
    host = parts.hostname or ""
    if not proxy or host == "localhost" or _is_loopback(host):
        return None
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    if any(_excepts(entry.strip().lower(), host, port) for entry in exceptions.split(",")):
        return None
    return usable_proxy(proxy if "://" in proxy else f"http://{proxy}", name.upper())


def usable_proxy(proxy: str, origin: str) -> str:
    """The proxy, if it is one that we can speak to."""
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise ConnectError(f"{origin}: {urlsplit(proxy).scheme} proxies are not supported; name an http:// one")
    return proxy


def _excepts(entry: str, host: str, port: int | None) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass  # one of them is a name
    name, _, only = entry.partition(":")
    if not name or (only and only != str(port)):
        return False
    domain = name.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or host == name  # a leading dot means subdomains only


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
