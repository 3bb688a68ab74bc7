"""The named reasons for lateness."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import SERVICE


class Cause(StrEnum):
    """The named reasons for lateness."""

    MONITOR_OVERLOADED = "monitor_overloaded"
    STORAGE_POLLER = "storage_poller"
    STORAGE_SLOW = "storage_slow"
    CACHE_BEHIND = "cache_behind"
    RESOURCE_DECODING = "resource_decoding"
    APISERVER_SENDING = "apiserver_sending"
    RESOURCE_FANOUT = "resource_fanout"
    BANDWIDTH = "bandwidth"
    RELIST_STORM = "relist_storm"
    HEADROOM_SHORT = "headroom_short"
    WRITE_PATH = "write_path"
    STALLED_STREAM = "stalled_stream"
    PARKED_WATCH = "parked_watch"
    CONTROLLER_SLOW = "controller_slow"
    CLIENT_CONNECTION = "client_connection"
    CLIENT_SLOW = "client_slow"
    UNKNOWN = "unknown"


_WORDS: Mapping[Cause, str] = {
    Cause.MONITOR_OVERLOADED: "overload of watchslo itself",
    Cause.STORAGE_POLLER: "slow polling of the storage",
    Cause.STORAGE_SLOW: "slow storage",
    Cause.CACHE_BEHIND: "late watch cache",
    Cause.RESOURCE_DECODING: "slow decoding",
    Cause.APISERVER_SENDING: "slow sending",
    Cause.RESOURCE_FANOUT: "fan-out",
    Cause.BANDWIDTH: "low bandwidth",
    Cause.RELIST_STORM: "many lists",
    Cause.HEADROOM_SHORT: "short headroom",
    Cause.WRITE_PATH: "slow writes",
    Cause.STALLED_STREAM: "stalled watch",
    Cause.PARKED_WATCH: "parked watch",
    Cause.CONTROLLER_SLOW: "slow controllers",
    Cause.CLIENT_CONNECTION: "slow connections of clients",
    Cause.CLIENT_SLOW: "slow clients",
}
"""The words for each cause, before `of WATCH at APISERVER`."""


class Confidence(StrEnum):
    """How certain a cause is: `high` if no other named cause fits."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class CauseReading:
    """An active cause. `apiserver` and `watch` name the one affected; None means all.

    `evidence` states the facts behind it, `next` what to look at; both are sentences.
    """

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence
    since_wall: float
    evidence: str
    next: str

    @property
    def heading(self) -> str:
        """The cause in words, with its confidence: `Likely cause (medium): fan-out of pods`."""
        watch = f" of {self.watch}" if self.watch else ""
        apiserver = f" at {self.apiserver}" if self.apiserver not in (None, SERVICE) else ""
        place = f"{watch}{apiserver}"
        if self.cause is Cause.UNKNOWN:
            return f"No known cause{f' of the delay{place}' if place else ''}"
        return f"Likely cause ({self.confidence}): {_WORDS[self.cause]}{place}"
