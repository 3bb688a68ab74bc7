"""`watchslo healthy`: checks whether a daemon is alive, for probes in images without another HTTP client."""

import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from watchslo.errors import ConfigError, WatchsloError

DEFAULT_URL = "http://127.0.0.1:9477"
ANSWER_SECONDS = 4.0  # a probe waits for five seconds, which include the start of Python
_LONGEST_ANSWER = 200  # characters; those of the daemon are shorter
_LOCAL = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - recognised here, chosen by the user


class NotHealthyError(WatchsloError):
    """Raised for a daemon that does not answer, or answers that it is unhealthy."""


def healthy(file: Path | None, url: str | None) -> str:
    """Return the answer of the daemon at `url`, or at the address that the configuration in `file` listens on.

    Raises:
        NotHealthyError: if it does not answer with 200.
        ConfigError: if the URL or the configuration cannot be used.
    """
    base = _address(file) if url is None else _checked(url)
    try:
        # No proxy: those of the environment lead to the cluster, and this daemon is local.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_trusting())
        )
        with opener.open(f"{base}/healthz", timeout=ANSWER_SECONDS) as answer:
            return f"{base}: {_first_line(answer.read(_LONGEST_ANSWER))}"
    except urllib.error.HTTPError as error:
        with error:
            said = _first_line(error.read(_LONGEST_ANSWER))
        raise NotHealthyError(f"{base}: HTTP {error.code}, {said}; see its log") from None
    except (OSError, HTTPException) as error:
        raise NotHealthyError(f"{base}: {_explained(error)}; start `watchslo run`, or pass its --url") from None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"--url: {url} is not a URL; write for example {DEFAULT_URL}")
    return url.rstrip("/")


def _address(file: Path | None) -> str:
    """Return the local URL of a daemon with this configuration."""
    if file is None:
        return DEFAULT_URL
    from watchslo.config.loading import load  # noqa: PLC0415 - it imports slowly, and only --config needs it

    server = load(file)[0].server
    host, port = server.listen
    if not port:
        raise ConfigError(f"{file}: server.listen: port 0 is any free port; pass the URL of the daemon's log as --url")
    scheme = "https" if server.tls else "http"
    return f"{scheme}://{_LOCAL.get(host, f'[{host}]' if ':' in host else host)}:{port}"


def _trusting() -> ssl.SSLContext:
    """Return TLS settings without verification: nothing secret is sent, and certificates name no loopback address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _first_line(answer: bytes) -> str:
    return next(iter(answer.decode(errors="replace").splitlines()), "no reason given")


def _explained(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"no answer within {ANSWER_SECONDS:g} s"
    return (getattr(reason, "strerror", None) or type(reason).__name__).lower()
