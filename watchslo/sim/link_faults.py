"""What can go wrong between a client and a server: each fault says what it does to a connection, and undoes.

Every fault has a name, a sentence for people, and where it takes one a value in a unit, which can be chosen as it is
switched on. It is about the connections there are (`open`), those to come (`new`), or `all`; what strikes once is
about `open` ones unless it is said otherwise, and about `new` ones it strikes each as it comes, until switched off.

To HTTP it can only be done in plain text: `captive-portal` and `long-line` need a proxy that speaks plain HTTP to its
client. `LINK_FAULTS` is the table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Protocol

from watchslo.errors import ConfigError
from watchslo.sim.delay import Law, parse_law
from watchslo.sim.way import Passed, Way


class Connections(StrEnum):
    """Which connections a fault is about."""

    OPEN = "open"
    NEW = "new"
    ALL = "all"


class Cut(Enum):
    """How a connection ends: with all that was sent, or at once."""

    FIN = "fin"
    RST = "rst"


class Connection(Protocol):
    """What a fault can do to a connection."""

    to_client: Way
    to_server: Way
    law: Law | None
    """The law by which bytes reach the client late, where it is not the proxy's."""

    def cut(self, how: Cut) -> None: ...

    def cut_when_idle(self, seconds: float) -> None:
        """Cut it when nothing has come from either side for so long; infinite for never."""


class _Truncated:
    """Lets some bytes pass, then ends."""

    def __init__(self, left: float) -> None:
        self._left = int(left)

    def __call__(self, data: bytes, _before: bytes) -> Passed:
        passed = data[: self._left]
        self._left -= len(passed)
        return Passed(passed, over=not self._left)


class _Corrupted:
    """Inverts some bytes, in the middle of what comes: of ASCII it makes what is no text in any encoding of JSON."""

    def __init__(self, left: float) -> None:
        self._left = int(left)

    def __call__(self, data: bytes, _before: bytes) -> Passed:
        first = len(data) // 2
        wrong = bytes(byte ^ 0xFF for byte in data[first : first + self._left])
        self._left -= len(wrong)
        return Passed(data[:first] + wrong + data[first + len(wrong) :])


class _LongLine:
    """Puts a line, as one chunk, between two chunks that end in a line: where a watch stands after every event.

    Not after a head and not after the last chunk of an answer; inside a chunk of JSON there is no carriage return.
    """

    def __init__(self, mebibytes: float) -> None:
        padding = b"x" * int(mebibytes * (1 << 20))
        line = b'{"type":"MODIFIED","object":{"padding":"%b"}}\n' % padding
        self._chunk = b"%x\r\n%b\r\n" % (len(line), line)

    def __call__(self, data: bytes, before: bytes) -> Passed:
        end = (before + data)[-4:]
        if not end.endswith(b"\n\r\n") or end == b"\r\n\r\n":
            return Passed(data)
        chunk, self._chunk = self._chunk, b""
        return Passed(data + chunk)


_PAGE = b"<html><head><title>Welcome</title></head><body>Please accept the terms of use to go on.</body></html>\n"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"


class _Portal:
    """Answers whatever a client says next with a page, and says no more; the server hears nothing of it."""

    def __init__(self, to_client: Way) -> None:
        self._to_client = to_client

    def __call__(self, data: bytes, _before: bytes) -> Passed:
        if data:
            self._to_client.push(_ANSWER % (len(_PAGE), _PAGE))
            self._to_client.push(None)
        return Passed(b"")


def _number(value: object) -> float:
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ConfigError(f"{value!r} is not a number. Write 0 or more.")
    return float(value)


def _positive(value: object) -> float:
    if not _number(value):
        raise ConfigError("0 is too little. Write a number above 0.")
    return _number(value)


def _law(value: object) -> Law:
    return parse_law(str(value))


def _none(value: object) -> None:
    if value is not None:
        raise ConfigError(f"{value!r} is too much: this fault takes no value.")


@dataclass(frozen=True, slots=True)
class LinkFault:
    """One thing that goes wrong with a connection.

    `read` checks the value, of which `unit` says what it counts, and `usual` what it is when none is given. `deaf`
    says that connections to come are not even accepted.
    """

    name: str
    words: str
    start: Callable[[Connection, Any], None]
    stop: Callable[[Connection], None]
    read: Callable[[object], Any] = _none
    usual: float | str | None = None
    unit: str = ""
    about: Connections = Connections.ALL
    deaf: bool = False


def _late(connection: Connection, law: Law | None) -> None:
    connection.law = law


def _holding(name: str, *ways: str) -> tuple[Callable[[Connection, Any], None], Callable[[Connection], None]]:
    """Starts and stops holding these ways of a connection."""

    def hold(connection: Connection, *, held: bool) -> None:
        for way in ways:
            getattr(connection, way).hold(name, held=held)

    return lambda connection, _value: hold(connection, held=True), lambda connection: hold(connection, held=False)


def _tampering(
    name: str, tamper: Callable[[float], _Truncated | _Corrupted | _LongLine]
) -> tuple[Callable[[Connection, Any], None], Callable[[Connection], None]]:
    """Starts and stops tampering with what reaches the client."""
    return (
        lambda connection, value: connection.to_client.tamper(name, tamper(value)),
        lambda connection: connection.to_client.leave(name),
    )


def _cutting(how: Cut) -> tuple[Callable[[Connection, Any], None], Callable[[Connection], None]]:
    """Cuts; what is cut cannot be mended."""
    return lambda connection, _value: connection.cut(how), lambda _connection: None


_ONCE = Connections.OPEN
_TABLE = (
    LinkFault("late-link", "all that comes from the apiserver is late",
              _late, lambda connection: _late(connection, None), _law, "normal 500ms 100ms", "law of delay"),
    LinkFault("thin-link", "each connection carries no more than 64 kbit/s to its client",
              lambda connection, rate: connection.to_client.throttle(rate),
              lambda connection: connection.to_client.throttle(math.inf), _positive, 8000, "bytes a second"),
    LinkFault("hole-to-client", "what the apiserver says gets lost; connections stay open",
              *_holding("hole-to-client", "to_client")),
    LinkFault("hole-to-server", "what is said to the apiserver gets lost; connections stay open",
              *_holding("hole-to-server", "to_server")),
    LinkFault("frozen-link", "nothing passes either way, and nothing is accepted",
              *_holding("frozen-link", "to_client", "to_server"), deaf=True),
    LinkFault("idle-timeout", "connections are cut when nothing has passed for a while",
              lambda connection, seconds: connection.cut_when_idle(seconds),
              lambda connection: connection.cut_when_idle(math.inf), _positive, 50, "seconds"),
    LinkFault("captive-portal", "something in between answers whatever is asked with a page of HTML",
              lambda connection, _: connection.to_server.tamper("captive-portal", _Portal(connection.to_client)),
              lambda connection: connection.to_server.leave("captive-portal")),
    LinkFault("fin", "connections were closed in between", *_cutting(Cut.FIN), about=_ONCE),
    LinkFault("reset", "connections were reset", *_cutting(Cut.RST), about=_ONCE),
    LinkFault("truncated", "connections are closed in the middle of what the apiserver says",
              *_tampering("truncated", _Truncated), _number, 100, "bytes before the end", _ONCE),
    LinkFault("corrupted", "some bytes of what the apiserver says arrive as others",
              *_tampering("corrupted", _Corrupted), _positive, 1, "bytes", _ONCE),
    LinkFault("long-line", "a line of many MiB comes on every watch",
              *_tampering("long-line", _LongLine), _positive, 20, "MiB", _ONCE),
)  # fmt: skip  # one entry reads as one sentence

LINK_FAULTS: dict[str, LinkFault] = {fault.name: fault for fault in _TABLE}


def known_link_fault(name: str) -> LinkFault:
    """The fault of this name.

    Raises:
        ConfigError: when there is none.
    """
    try:
        return LINK_FAULTS[name]
    except KeyError:
        raise ConfigError(f"{name!r} is not a fault of a link. There are {', '.join(LINK_FAULTS)}.") from None
