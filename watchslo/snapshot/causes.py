"""The named reasons for lateness."""

from dataclasses import dataclass
from enum import StrEnum


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
