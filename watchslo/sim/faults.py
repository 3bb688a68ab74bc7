"""What can go wrong in the simulated cluster: each fault is a few facts, and a sentence for people."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from random import Random

from watchslo.errors import ConfigError
from watchslo.sim import status
from watchslo.sim.delay import Law, parse_law
from watchslo.sim.kinds import ALL_VERBS, Kind

EVERYTHING = "*"
"""Stands for all resources."""


class Hop(StrEnum):
    """The two ways an event has to go."""

    STORAGE = "storage"
    """From etcd to the apiserver's watch cache."""
    CLIENT = "client"
    """From there to a client."""


class Blow(Enum):
    """What happens to open watches: at once, and then every so often."""

    EXPIRE = "expire"
    FORGET = "forget"
    COMPACT = "compact"
    RESTORE = "restore"
    LOSE = "lose"
    INJECT = "inject"
    CUT = "cut"


Refusal = Callable[[Kind | None, str, str | None], status.StatusError]
"""Makes the refusal of a request from its kind (None for discovery), verb and namespace."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a share of the requests with certain verbs (none named: all) is answered instead of the truth.

    Either a `refusal`, or a `body` with status 200, or, with neither, a cut connection.
    """

    verbs: tuple[str, ...] = ()
    share: float = 1.0
    refusal: Refusal | None = None
    body: str | None = None
    content_type: str = "text/html"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong, with one resource or with all; `words` says what, for people.

    `law` takes the place of the hop's law of delay; `held` lets nothing pass that hop. `blow` comes `every` so many
    seconds, or once if that is infinite; `line` is what it sends, if it does. `clock` is how far ahead the apiserver's
    clock is, in seconds. `window` is how many changes watch caches remember. A `mute` apiserver ends a watch that it
    cannot resume cleanly, where others say 410.
    """

    name: str
    words: str
    hop: Hop | None = None
    law: str = ""
    held: bool = False
    answer: Answer | None = None
    blow: Blow | None = None
    every: float = 5.0
    line: bytes = b""
    clock: float = 0.0
    stale: bool = False
    window: int = 0
    mute: bool = False


def _forbidden(kind: Kind | None, verb: str, namespace: str | None) -> status.StatusError:
    assert kind is not None  # only verbs of resources are forbidden
    return status.forbidden(kind, verb, namespace)


def _refuse(code: int, reason: str, message: str, retry_after: int | None = None) -> Refusal:
    details = None if retry_after is None else {"retryAfterSeconds": retry_after}
    return lambda _kind, _verb, _namespace: status.StatusError(code, reason, message, details)


_READS = ("list", "watch")
_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"

_FAULTS = (
    Fault("slow-watch", "events leave the watch cache late", Hop.CLIENT, law="lognormal 800ms 0.6"),
    Fault("slow-cache", "the watch cache lags behind etcd", Hop.STORAGE, law="normal 600ms 150ms"),
    Fault("bursts", "events are held for 2 s in every 6 s", Hop.CLIENT, law="hold 2s 6s"),
    Fault("tail", "one event in fifty comes 3 s late, and holds up those behind it", Hop.CLIENT,
          law="bimodal 20ms 3s 0.02"),
    Fault("stalled-stream", "open watches stay open and silent", Hop.CLIENT, held=True),
    Fault("frozen-cache", "the watch cache hears nothing from etcd", Hop.STORAGE, held=True),
    Fault("expired", "every 5 s all watches end in a 410, and their revisions are forgotten", blow=Blow.EXPIRE),
    Fault("stale-close", "every 20 s all watches end, and those that go on from where they were end empty and cleanly",
          blow=Blow.FORGET, every=20.0, mute=True),
    Fault("short-history", "watch caches remember no more than 20 changes", window=20),
    Fault("compacted", "etcd is compacted every second, and watch caches remember no more than 20 changes",
          blow=Blow.COMPACT, every=1.0, window=20),
    Fault("restored", "etcd was restored as it was 50 revisions ago, and the apiserver started anew",
          blow=Blow.RESTORE, every=math.inf),
    Fault("lost-event", "every 5 s an event is lost to one of its watches, which goes on with the next",
          blow=Blow.LOSE),
    Fault("gone", "half of the watches are refused with HTTP 410",
          answer=Answer(("watch",), 0.5, _refuse(410, "Expired", status.WATCH_COMPACTED))),
    Fault("throttled", "half of the reads are refused with 429",
          answer=Answer(_READS, 0.5, _refuse(429, "TooManyRequests", "too many requests, please try again later", 1))),
    Fault("overloaded", "every request is refused with 429",
          answer=Answer(refusal=_refuse(429, "TooManyRequests", "too many requests, please try again later", 1))),
    Fault("errors", "half of the reads fail with 500",
          answer=Answer(_READS, 0.5, _refuse(500, "InternalError", "etcdserver: request timed out"))),
    Fault("busy", "every request fails with 504",
          answer=Answer(refusal=_refuse(504, "Timeout", "the server was unable to complete the request in time"))),
    Fault("unavailable", "every request fails with 503",
          answer=Answer(refusal=_refuse(503, "ServiceUnavailable", "apiserver is shutting down"))),
    Fault("empty-watch", "watches end as soon as they are open, cleanly and without an event",
          answer=Answer(("watch",), body="", content_type="application/json")),
    Fault("garbage", "every 5 s a line that is no JSON comes on every watch", blow=Blow.INJECT,
          line=b'{"type":"MODIFIED","object":{"kind":\n'),
    Fault("unknown-type", "every 5 s an event of an unknown type comes on every watch", blow=Blow.INJECT,
          line=b'{"type":"RENAMED","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}\n'),
    Fault("odd-revision", "every 5 s an event whose revision is no number comes on every watch", blow=Blow.INJECT,
          line=b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"resourceVersion":"7a"}}}\n'),
    Fault("endless-line", "watches carry a line that never ends, 20 MiB a second", blow=Blow.INJECT, every=0.05,
          line=b"x" * (1 << 20)),
    Fault("html", "something in between answers reads with a page of HTML", answer=Answer(_READS, body=_PAGE)),
    Fault("cut", "every 5 s the connections of all watches are cut", blow=Blow.CUT),
    Fault("unreachable", "every connection is cut as soon as something is asked", answer=Answer()),
    Fault("forbidden", "the resource may not be read", answer=Answer(ALL_VERBS, refusal=_forbidden)),
    Fault("unauthorized", "the token is refused", answer=Answer(refusal=_refuse(401, "Unauthorized", "Unauthorized"))),
    Fault("stale-group", "discovery names the group of the resource, but not what is in it", stale=True),
    Fault("clock-step", "the apiserver's clock is an hour ahead", clock=3600.0),
)  # fmt: skip  # one entry reads as one sentence

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FAULTS}


@dataclass(frozen=True, slots=True)
class Active:
    """A fault that is on, for one resource or for `*`, with the law that is in force."""

    fault: Fault
    resource: str
    law: Law | None


class Faults:
    """The faults that are on."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._active: dict[tuple[str, str], Active] = {}

    def __iter__(self) -> Iterator[Active]:
        return iter(self._active.values())

    def switch_on(self, name: str, resource: str = EVERYTHING, law: str = "") -> Active:
        """Switch a fault on, with a law of its own if it has to do with delay.

        Raises:
            ConfigError: for a fault that is not known, or a law that is none.
        """
        fault = known_fault(name)
        text = law or fault.law
        active = Active(fault, resource, parse_law(text) if text else None)
        self._active[name, resource] = active
        return active

    def switch_off(self, name: str, resource: str = EVERYTHING) -> None:
        self._active.pop((known_fault(name).name, resource), None)

    @property
    def clock(self) -> float:
        """How far ahead the apiserver's clock is, in seconds."""
        return sum(active.fault.clock for active in self)

    def law(self, hop: Hop, resource: str) -> Law | None:
        """The law that the newest fault puts on a hop; None where none does."""
        laws = [active.law for active in self._about(resource) if active.fault.hop is hop and active.law]
        return laws[-1] if laws else None

    def held(self, hop: Hop, resource: str) -> bool:
        return any(active.fault.hop is hop and active.fault.held for active in self._about(resource))

    def stale(self, resource: str) -> bool:
        return any(active.fault.stale for active in self._about(resource))

    def mute(self, resource: str) -> bool:
        return any(active.fault.mute for active in self._about(resource))

    def window(self, resource: str) -> int | None:
        """How many changes a watch cache remembers at most; None where no fault says so."""
        return min((active.fault.window for active in self._about(resource) if active.fault.window), default=None)

    def answer(self, resource: str, verb: str) -> Answer | None:
        """What this request is answered instead of the truth, drawn anew for each."""
        for active in self._about(resource):
            answer = active.fault.answer
            if answer and (not answer.verbs or verb in answer.verbs) and self._random.random() < answer.share:
                return answer
        return None

    def _about(self, resource: str) -> Iterator[Active]:
        return (active for active in self if active.resource in (EVERYTHING, resource))


def known_fault(name: str) -> Fault:
    """The fault of this name.

    Raises:
        ConfigError: when there is none.
    """
    try:
        return FAULTS[name]
    except KeyError:
        raise ConfigError(f"{name!r} is not a fault. There are {', '.join(FAULTS)}.") from None
