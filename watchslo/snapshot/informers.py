"""Readings of the informers of other programs: how old their caches are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from watchslo.model import Interval


class StoreVerdict(StrEnum):
    """Whether a cache is in time."""

    CURRENT = "current"
    STALE = "stale"  # our own watch had an event, which it lacks, for longer than the threshold
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class InformerReading:
    """The caches of one resource in one client, of which the worst counts.

    `staleness` bounds for how many seconds they have lacked an event; None if nothing is known. `queued` items have
    arrived and are not in the cache yet, as the client says; None if it does not. `waits` says that some were on the
    page before as well. `overtaken` says that another cache of the client has reached a later revision than that of the
    event which a stale one lacks: so the client has received something since.
    """

    group: str
    resource: str
    verdict: StoreVerdict
    staleness: Interval | None = None
    queued: int | None = None
    waits: bool = False
    overtaken: bool = False


@dataclass(frozen=True, slots=True)
class ClientReading:
    """A program whose page of metrics is read: `reads` counts its pages by verdict, the worst of all its caches.

    `informers` are those of the last page that was judged, empty if that is too old. `unknown` counts, by reason, its
    caches that are not judged, and `obstacle` is a sentence about what is wrong now.
    """

    client: str
    reads: Mapping[str, int]
    informers: tuple[InformerReading, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    obstacle: str | None = None
