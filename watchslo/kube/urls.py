"""Reads URLs of servers that others wrote, before any library is asked to connect to them. Pure."""

from urllib.parse import SplitResult, urlsplit


def server_url(text: str) -> SplitResult:
    """Return a URL in its parts; raises ValueError if no server can have this name or this port."""
    url = urlsplit(text)
    if url.port == 0 or any(letter.isspace() or not letter.isprintable() for letter in url.netloc):
        raise ValueError("no server has this address")
    (url.hostname or "").encode("idna")  # raises UnicodeError, which is a ValueError
    return url


def is_host(name: str) -> bool:
    """Return whether a host can have this name."""
    try:
        return bool(name) and not server_url(f"https://{name}").port
    except ValueError:
        return False
