"""The faults that the simulated cluster can inject. `FAULTS` is the table of all of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from random import Random

from watchslo.errors import ConfigError
from watchslo.sim import event_edits, status
from watchslo.sim.delay_law import DelayLaw, parse_law
from watchslo.sim.event_edits import EventEdit
from watchslo.sim.kinds import VERBS, ResourceKind

ALL_RESOURCES = "*"
"""Selects all resources."""


class SimHop(StrEnum):
    """The hops of an event."""

    STORAGE = "storage"
    """From etcd to the apiserver's watch cache."""
    CLIENT = "client"
    """From the watch cache to a client."""
    ENCODING = "encoding"
    """The same for whole objects, if a law of its own is set."""


class WatchDisruption(Enum):
    """An action on open watches: at once, and then at a fixed interval."""

    EXPIRE = "expire"
    FORGET = "forget"
    EDIT = "edit"
    INJECT = "inject"
    CUT = "cut"


Refusal = Callable[[ResourceKind | None, str, str | None], status.StatusError]
"""Maps a request's kind (None for discovery), verb and namespace to its refusal."""


@dataclass(frozen=True, slots=True)
class FaultResponse:
    """The response that replaces the regular one, for a share of the requests with certain verbs (empty: all).

    It is a `refusal`, or a `body` with status 200. Without either, the server cuts the connection.
    """

    verbs: tuple[str, ...] = ()
    share: float = 1.0
    refusal: Refusal | None = None
    body: str | None = None
    content_type: str = "text/html"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one resource or of all resources; `words` describes it for users.

    `law` replaces the delay law of the hop. `held` blocks the hop. The `disruption` repeats `every` so many seconds;
    `line` is the line that it injects. `edit` changes the next events of one watch of each resource, or, with
    `on_resume`, the first events of every watch that resumes from a revision. `clock` is how far the apiserver's clock
    is ahead, in seconds. `window` is the number of changes that watch caches keep. With `closes_silently`, the
    apiserver ends a watch cleanly if it cannot resume it, where it would otherwise send a 410. With `keeps_informers`,
    its own informers stay as they are.
    """

    name: str
    words: str
    hop: SimHop | None = None
    law: str = ""
    held: bool = False
    response: FaultResponse | None = None
    disruption: WatchDisruption | None = None
    every: float = 5.0
    line: bytes = b""
    edit: EventEdit | None = None
    on_resume: bool = False
    clock: float = 0.0
    window: int = 0
    closes_silently: bool = False
    keeps_informers: bool = False


def _forbidden(kind: ResourceKind | None, verb: str, namespace: str | None) -> status.StatusError:
    assert kind is not None  # the fault covers only verbs of resources, not discovery
    return status.forbidden(kind, verb, namespace)


def _refuse(code: int, reason: str, message: str, retry_after: int | None = None) -> Refusal:
    details = None if retry_after is None else {"retryAfterSeconds": retry_after}
    return lambda _kind, _verb, _namespace: status.StatusError(code, reason, message, details)


_READS = ("list", "watch")
_PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"

_UNAUTHORIZED = _refuse(401, "Unauthorized", "Unauthorized")
_COMPACTED = _refuse(410, "Expired", status.WATCH_COMPACTED)
_TOO_MANY_REQUESTS = _refuse(429, "TooManyRequests", "too many requests, please try again later", 1)

_FAULTS = (
    Fault("slow-watch", "events leave the watch cache late", SimHop.CLIENT, law="lognormal 800ms 0.6"),
    Fault("slow-encoding", "whole objects leave the watch cache late, unlike metadata and Tables", SimHop.ENCODING,
          law="normal 900ms 200ms"),
    Fault("slow-cache", "the watch cache lags behind etcd", SimHop.STORAGE, law="normal 600ms 150ms"),
    Fault("parked-watch", "watches stay open, pause for 4 s in every 8 s and then get what they missed", SimHop.CLIENT,
          law="hold 4s 8s"),
    Fault("tail", "one event in fifty is 3 s late and delays the events behind it", SimHop.CLIENT,
          law="bimodal 20ms 3s 0.02"),
    Fault("stalled-stream", "open watches stay open but deliver nothing", SimHop.CLIENT, held=True),
    Fault("frozen-cache", "the watch cache receives nothing from etcd", SimHop.STORAGE, held=True),
    Fault("stale-informer", "the apiserver's own informers receive nothing", keeps_informers=True),
    Fault("expired", "every 5 s all watches end with 410 and the watch caches drop their windows",
          disruption=WatchDisruption.EXPIRE),
    Fault("stale-close", "every 20 s all watches end; watches that resume end at once, cleanly and without an event",
          disruption=WatchDisruption.FORGET, every=20.0, closes_silently=True),
    Fault("short-history", "watch caches keep at most 20 changes", window=20),
    Fault("lost-event", "every 5 s one watch loses one event and continues with the next",
          disruption=WatchDisruption.EDIT, edit=event_edits.LOSE),
    Fault("lost-range", "every 5 s one watch loses ten events in a row and continues with the next",
          disruption=WatchDisruption.EDIT, edit=event_edits.LOSE_TEN),
    Fault("lost-delete", "every 5 s one watch loses its next DELETED event",
          disruption=WatchDisruption.EDIT, edit=event_edits.LOSE_DELETED),
    Fault("duplicate-event", "every 5 s one watch gets its next event twice",
          disruption=WatchDisruption.EDIT, edit=event_edits.DUPLICATE),
    Fault("swapped-events", "every 5 s one watch gets its next two events in the opposite order",
          disruption=WatchDisruption.EDIT, edit=event_edits.SWAP),
    Fault("wrong-type", "every 5 s one watch gets its next MODIFIED event as ADDED",
          disruption=WatchDisruption.EDIT, edit=event_edits.RETYPE),
    Fault("early-bookmark", "every 5 s one watch gets a bookmark with the revision of its next event before that event",
          disruption=WatchDisruption.EDIT, edit=event_edits.SEND_EARLY_BOOKMARK),
    Fault("backward-bookmark", "every 5 s one watch gets a bookmark that is older than the bookmark before it",
          disruption=WatchDisruption.EDIT, edit=event_edits.SEND_BACKWARD_BOOKMARK),
    Fault("skipped-resume", "every watch that resumes from a revision misses its first event",
          edit=event_edits.LOSE, on_resume=True),
    Fault("gone", "half of the watches are refused with 410", response=FaultResponse(("watch",), 0.5, _COMPACTED)),
    Fault("throttled", "half of the reads are refused with 429",
          response=FaultResponse(_READS, 0.5, _TOO_MANY_REQUESTS)),
    Fault("overloaded", "every request is refused with 429", response=FaultResponse(refusal=_TOO_MANY_REQUESTS)),
    Fault("empty-watch", "watches end as soon as they are open, cleanly and without an event",
          response=FaultResponse(("watch",), body="", content_type="application/json")),
    Fault("garbage", "every 5 s each watch carries a line that is not valid JSON", disruption=WatchDisruption.INJECT,
          line=b'{"type":"MODIFIED","object":{"kind":\n'),
    Fault("unknown-type", "every 5 s each watch carries an event of an unknown type",
          disruption=WatchDisruption.INJECT,
          line=b'{"type":"RENAMED","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}\n'),
    Fault("odd-revision", "every 5 s each watch carries an event whose resourceVersion is not a number",
          disruption=WatchDisruption.INJECT,
          line=b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"resourceVersion":"7a"}}}\n'),
    Fault("endless-line", "each watch carries a line that never ends, at 20 MiB per second",
          disruption=WatchDisruption.INJECT, every=0.05, line=b"x" * (1 << 20)),
    Fault("html", "an intermediary answers reads with an HTML page", response=FaultResponse(_READS, body=_PAGE)),
    Fault("cut", "every 5 s the connections of all watches are cut", disruption=WatchDisruption.CUT),
    Fault("unreachable", "every connection is cut at its first request", response=FaultResponse()),
    Fault("forbidden", "access to the resource is forbidden", response=FaultResponse(VERBS, refusal=_forbidden)),
    Fault("unauthorized", "the token is refused", response=FaultResponse(refusal=_UNAUTHORIZED)),
    Fault("clock-step", "the apiserver's clock is one hour ahead", clock=3600.0),
)  # fmt: skip  # one entry reads as one sentence

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _FAULTS}


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault that is switched on for one resource or for `*`, with its delay law."""

    fault: Fault
    resource: str
    law: DelayLaw | None


class Faults:
    """The faults that are switched on."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._active: dict[tuple[str, str], ActiveFault] = {}

    def __iter__(self) -> Iterator[ActiveFault]:
        return iter(self._active.values())

    def switch_on(self, name: str, resource: str = ALL_RESOURCES, law: str = "") -> ActiveFault:
        """Switch a fault on; `law` replaces the fault's own delay law.

        Raises:
            ConfigError: for an unknown fault or an invalid delay law.
        """
        fault = known_fault(name)
        text = law or fault.law
        active = ActiveFault(fault, resource, parse_law(text) if text else None)
        self._active[name, resource] = active
        return active

    def switch_off(self, name: str, resource: str = ALL_RESOURCES) -> None:
        self._active.pop((name, resource), None)

    @property
    def clock(self) -> float:
        """How far the faults put the apiserver's clock ahead, in seconds."""
        return sum(active.fault.clock for active in self)

    def law(self, hop: SimHop, resource: str) -> DelayLaw | None:
        """The delay law of the newest fault that delays this hop; None if no fault does."""
        laws = [active.law for active in self._matching(resource) if active.fault.hop is hop and active.law]
        return laws[-1] if laws else None

    def held(self, hop: SimHop, resource: str) -> bool:
        return any(active.fault.hop is hop and active.fault.held for active in self._matching(resource))

    def closes_silently(self, resource: str) -> bool:
        return any(active.fault.closes_silently for active in self._matching(resource))

    def resume_edits(self, resource: str) -> dict[str, EventEdit]:
        """The edits of the first events of a watch that resumes, by the names of their faults."""
        faults = [active.fault for active in self._matching(resource) if active.fault.on_resume]
        return {fault.name: fault.edit for fault in faults if fault.edit}

    def window(self, resource: str) -> int | None:
        """The maximum number of changes in a watch cache; None if no fault limits it."""
        return min((active.fault.window for active in self._matching(resource) if active.fault.window), default=None)

    def response(self, resource: str, verb: str) -> FaultResponse | None:
        """The response that replaces the regular one for this request; drawn at random for each request."""
        for active in self._matching(resource):
            response = active.fault.response
            if response and (not response.verbs or verb in response.verbs) and self._random.random() < response.share:
                return response
        return None

    def _matching(self, resource: str) -> Iterator[ActiveFault]:
        return (active for active in self if active.resource in (ALL_RESOURCES, resource))


def known_fault(name: str) -> Fault:
    """Return the fault of this name.

    Raises:
        ConfigError: if no fault has this name.
    """
    try:
        return FAULTS[name]
    except KeyError:
        raise ConfigError(f"{name!r} is not a fault. The faults are {', '.join(FAULTS)}.") from None
