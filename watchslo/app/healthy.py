"""`watchslo healthy`: whether a daemon's loop turns, for probes and for images that hold no other HTTP client."""

import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from watchslo.errors import ConfigError, WatchsloError

DEFAULT_URL = "http://127.0.0.1:9477"
ANSWER_SECONDS = 4.0  # a probe waits for five, and has to start Python in that time
_LONGEST_ANSWER = 200  # characters; the daemon's own are shorter
_LOCAL = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - recognised here, chosen by the user


class NotHealthyError(WatchsloError):
    """A daemon that does not answer, or says that it is not well."""


def healthy(file: Path | None, url: str | None) -> str:
    """What a daemon says of itself at `url`, or where the configuration in `file` lets it listen.

    Raises NotHealthyError, ConfigError.
    """
    base = _address(file) if url is None else _checked(url)
    try:
        # Straight there: a proxy of the environment is for the cluster, and this is somebody beside us.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_trusting())
        )
        with opener.open(f"{base}/healthz", timeout=ANSWER_SECONDS) as answer:
            return f"{base}: {_first_line(answer.read(_LONGEST_ANSWER))}"
    except urllib.error.HTTPError as error:
        with error:
            said = _first_line(error.read(_LONGEST_ANSWER))
        raise NotHealthyError(f"{base}: HTTP {error.code}, {said}; look at its log") from None
    except (OSError, HTTPException) as error:
        raise NotHealthyError(f"{base}: {_explained(error)}; start `watchslo run`, or name its --url") from None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"--url: {url} is no URL; write for example {DEFAULT_URL}")
    return url.rstrip("/")


def _address(file: Path | None) -> str:
    """Where the daemon of a configuration is reached from beside it."""
    if file is None:
        return DEFAULT_URL
    from watchslo.config import load  # noqa: PLC0415 - only who names a file waits for what reads it

    server = load(file)[0].server
    host, port = server.listen
    if not port:
        raise ConfigError(f"{file}: server.listen: port 0 is a free one, which only its log names; name it with --url")
    scheme = "https" if server.tls else "http"
    return f"{scheme}://{_LOCAL.get(host, f'[{host}]' if ':' in host else host)}:{port}"


def _trusting() -> ssl.SSLContext:
    """TLS without verification: nothing is told to the other side, and its certificate names no loopback address."""
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
