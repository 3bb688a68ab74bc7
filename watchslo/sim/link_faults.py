"""The faults that the TCP proxy can inject between a client and a server. `LINK_FAULTS` is the table of all of them.

A fault can be started and stopped on a connection. Some faults take a value, which can be chosen when the fault is
switched on. A fault affects the `open` connections, `new` ones, or `all`. A fault that acts once affects `open`
connections by default; switched on for `new` connections, it acts on each new connection until it is switched off.

The proxy cannot change encrypted bytes: `captive-portal`, `long-line` and the faults that edit events of watches
(`watchslo.sim.watch_editor`) need a client that speaks plain HTTP.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from watchslo.errors import ConfigError
from watchslo.sim.pipe import FilterResult, Pipe
from watchslo.sim.proxied_connection import CloseMode, ProxiedConnection

StartAndStop = tuple[Callable[[ProxiedConnection, Any], None], Callable[[ProxiedConnection], None]]
"""The functions that start a fault on a connection with its value, and stop it."""


class ConnectionSelection(StrEnum):
    """The connections that a fault affects."""

    OPEN = "open"
    NEW = "new"
    ALL = "all"


class _Truncator:
    """Passes a number of bytes, then ends the pipe."""

    def __init__(self, left: float) -> None:
        self._left = int(left)

    def __call__(self, data: bytes, _before: bytes) -> FilterResult:
        passed = data[: self._left]
        self._left -= len(passed)
        return FilterResult(passed, over=not self._left)


class _LongLineInserter:
    """Inserts one line as an HTTP chunk after a chunk that ends in a newline, as every event of a watch does.

    It never inserts after a response head or after the last chunk of a response. A carriage return marks the end of a
    chunk, because JSON inside a chunk contains none.
    """

    def __init__(self, mebibytes: float) -> None:
        padding = b"x" * int(mebibytes * (1 << 20))
        line = b'{"type":"MODIFIED","object":{"padding":"%b"}}\n' % padding
        self._chunk = b"%x\r\n%b\r\n" % (len(line), line)

    def __call__(self, data: bytes, before: bytes) -> FilterResult:
        end = (before + data)[-4:]
        if not end.endswith(b"\n\r\n") or end == b"\r\n\r\n":
            return FilterResult(data)
        chunk, self._chunk = self._chunk, b""
        return FilterResult(data + chunk)


_PAGE = b"<html><head><title>Welcome</title></head><body>Please accept the terms of use to continue.</body></html>\n"
_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"


class _CaptivePortal:
    """Answers the client's next request with a page and ends the connection; the server receives nothing."""

    def __init__(self, to_client: Pipe) -> None:
        self._to_client = to_client

    def __call__(self, data: bytes, _before: bytes) -> FilterResult:
        if data:
            self._to_client.push(_RESPONSE % (len(_PAGE), _PAGE))
            self._to_client.push(None)
        return FilterResult(b"")


@dataclass(frozen=True, slots=True)
class LinkFault:
    """A fault of a connection; `words` describes it for users.

    `usual` is the default of its value; None for a fault without a value. With `stops_accepting`, the proxy accepts no
    new connections while the fault is on.
    """

    name: str
    words: str
    start: Callable[[ProxiedConnection, Any], None]
    stop: Callable[[ProxiedConnection], None]
    usual: float | None = None
    least: float = 0.0
    most: float = math.inf
    about: ConnectionSelection = ConnectionSelection.ALL
    stops_accepting: bool = False

    def checked(self, value: float | None) -> float | None:
        """Return this value, or the default of None.

        Raises:
            ConfigError: if the value is too small or too large.
        """
        if value is None or self.usual is None:
            return self.usual
        if not self.least <= value <= self.most:
            raise ConfigError(
                f"{value} is no value of {self.name}. Write a number from {self.least:g} to {self.most:g}."
            )
        return value


def _holding(name: str, *pipes: str) -> StartAndStop:
    """Return the functions that hold and release these pipes of a connection."""

    def hold(connection: ProxiedConnection, *, held: bool) -> None:
        for pipe in pipes:
            getattr(connection, pipe).hold(name, held=held)

    return lambda connection, _value: hold(connection, held=True), lambda connection: hold(connection, held=False)


def _filtering(name: str, make_filter: Callable[[float], _Truncator | _LongLineInserter]) -> StartAndStop:
    """Return the functions that add a filter to the bytes to the client, and remove it."""
    return (
        lambda connection, value: connection.to_client.add_filter(name, make_filter(value)),
        lambda connection: connection.to_client.remove_filter(name),
    )


def _editing(name: str) -> StartAndStop:
    """Return the functions that start and stop to edit a share of the events of watches."""

    def stop(connection: ProxiedConnection) -> None:
        connection.editor.stop(name)
        connection.to_client.call_filters()

    return lambda connection, share: connection.editor.start(name, share), stop


def _cutting(mode: CloseMode) -> StartAndStop:
    """Return the functions that cut a connection, and do nothing: a cut cannot be undone."""
    return lambda connection, _value: connection.cut(mode), lambda _connection: None


_ONCE = ConnectionSelection.OPEN
_TABLE = (
    LinkFault("thin-link", "each connection carries at most 64 kbit/s to its client",
              lambda connection, rate: connection.to_client.throttle(rate),
              lambda connection: connection.to_client.throttle(math.inf), 8000, least=1),  # bytes per second
    LinkFault("hole-to-client", "bytes from the apiserver are lost; connections stay open",
              *_holding("hole-to-client", "to_client")),
    LinkFault("hole-to-server", "bytes to the apiserver are lost; connections stay open",
              *_holding("hole-to-server", "to_server")),
    LinkFault("frozen-link", "no bytes pass in either direction, and no connection is accepted",
              *_holding("frozen-link", "to_client", "to_server"), stops_accepting=True),
    LinkFault("idle-timeout", "idle connections are cut",
              lambda connection, seconds: connection.cut_when_idle(seconds),
              lambda connection: connection.cut_when_idle(math.inf), 50, least=1e-3),  # seconds
    LinkFault("captive-portal", "an intermediary answers every request with an HTML page",
              lambda connection, _: connection.to_server.add_filter(
                  "captive-portal", _CaptivePortal(connection.to_client)),
              lambda connection: connection.to_server.remove_filter("captive-portal")),
    LinkFault("fin", "connections are closed by an intermediary", *_cutting(CloseMode.FIN), about=_ONCE),
    LinkFault("reset", "connections are reset by an intermediary", *_cutting(CloseMode.RST), about=_ONCE),
    LinkFault("truncated", "connections are closed in the middle of a response",
              *_filtering("truncated", _Truncator), 100, about=_ONCE),  # bytes before the end
    LinkFault("long-line", "each watch carries a line of many MiB",
              *_filtering("long-line", _LongLineInserter), 20, least=1e-3, about=_ONCE),  # MiB
    LinkFault("lossy", "watches lose one event in a hundred",
              *_editing("lossy"), 0.01, most=1),  # share of events
    LinkFault("duplicating", "watches get one event in a hundred twice",
              *_editing("duplicating"), 0.01, most=1),  # share of events
    LinkFault("swapping", "watches get one event in a hundred after the next one",
              *_editing("swapping"), 0.01, most=1),  # share of events
)  # fmt: skip  # one entry reads as one sentence

LINK_FAULTS: dict[str, LinkFault] = {fault.name: fault for fault in _TABLE}


def known_link_fault(name: str) -> LinkFault:
    """Return the link fault of this name.

    Raises:
        ConfigError: if no link fault has this name.
    """
    try:
        return LINK_FAULTS[name]
    except KeyError:
        raise ConfigError(f"{name!r} is not a link fault. The link faults are {', '.join(LINK_FAULTS)}.") from None
