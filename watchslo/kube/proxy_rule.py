"""Which proxy a request goes through, by the rules of client-go.

The `proxy-url` of a kubeconfig applies to all requests, whatever NO_PROXY says. Otherwise the environment decides for
the address that is really asked, as Go's `httpproxy` does (client-go, transport/cache.go: `http.ProxyFromEnvironment`
unless the configuration has a proxy).
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from watchslo.errors import ConnectError
from watchslo.kube.urls import server_url

MOST_KEPT = 256  # decisions: more addresses than an instance asks


@dataclass(frozen=True, slots=True, repr=False)
class ProxyRule:
    """The proxy `fixed` for all requests; without it those of the environment, by the scheme of the address.

    `exceptions` is NO_PROXY. The URLs of proxies may contain passwords.
    """

    fixed: str | None = None
    http: str | None = None
    https: str | None = None
    exceptions: str = ""

    def for_url(self, url: str) -> str | None:
        """Return the proxy for an address, None for a direct connection.

        Raises ConnectError if the address is no URL, or the proxy is not supported.
        """
        try:
            return self.fixed or _decide(self, url)
        except ValueError:
            raise ConnectError(f"{url}: not a URL; write https://host:port") from None


DIRECT = ProxyRule()
"""No request goes through a proxy."""


def environment_rule(environ: Mapping[str, str]) -> ProxyRule:
    """Return the rule that HTTP_PROXY, HTTPS_PROXY and NO_PROXY make."""
    http, https, exceptions = (
        environ.get(name) or environ.get(name.lower()) for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    )
    return ProxyRule(http=http, https=https, exceptions=exceptions or "")


def fixed_rule(proxy: str, origin: str) -> ProxyRule:
    """Return the rule for a `proxy-url`; raises ConnectError, which names the origin, if it is not supported."""
    return ProxyRule(fixed=_usable(proxy, origin))


@lru_cache(MOST_KEPT)
def _decide(rule: ProxyRule, url: str) -> str | None:
    parts = urlsplit(url)
    proxy = rule.https if parts.scheme == "https" else rule.http
    host = parts.hostname or ""
    if not proxy or host == "localhost" or _is_loopback(host):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if any(_excludes(entry.strip().lower(), host, port) for entry in rule.exceptions.split(",")):
        return None
    return _usable(proxy if "://" in proxy else f"http://{proxy}", f"{parts.scheme}_proxy".upper())


def _usable(proxy: str, origin: str) -> str:
    try:
        url = server_url(proxy)
    except ValueError:
        url = urlsplit("")
    if url.scheme.startswith("socks"):
        raise ConnectError(
            f"{origin}: SOCKS proxies ({url.scheme}://) are not supported; name a proxy with http://, or a tunnel to "
            "the apiserver (ssh -L) as server"
        )
    if url.scheme not in ("http", "https"):
        raise ConnectError(f"{origin}: not the URL of a proxy; write http://host:port")
    return proxy


def _excludes(entry: str, host: str, port: int) -> bool:
    """Return True if an entry of NO_PROXY names the host: `*`, a network, or a host with or without a port.

    A network has no port.
    """
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass  # the host or the entry is a name, or the entry has a port
    try:
        parts = urlsplit(f"//{entry}")
        name, only = parts.hostname or "", parts.port
    except ValueError:  # it is malformed
        return False
    if not name or only not in (None, port):
        return False
    domain = name.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or host == name  # a leading dot means subdomains only


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
