"""Readings of the daemon itself."""

from dataclasses import dataclass

from watchslo.model import UNNAMED, InstanceName
from watchslo.snapshot.figures import HistogramReading


@dataclass(frozen=True, slots=True)
class BuildReading:
    """The running code: its version, the revision of its source (`unknown` outside an image), Python's version."""

    version: str
    revision: str
    python_version: str


@dataclass(frozen=True, slots=True)
class ShardReading:
    """The shard of this instance: shard `index` of `count`; `elsewhere` counts the watches of the other shards."""

    index: int
    count: int
    elsewhere: int


@dataclass(frozen=True, slots=True)
class WitnessReading:
    """The announced apiservers that are not watched: how many there are, and how many answer and so are witnesses.

    `why` is the reason in a sentence if some do not answer, or if the addresses cannot be read.
    """

    announced: int
    reached: int
    why: str | None


@dataclass(frozen=True, slots=True)
class IncompleteGroup:
    """An API group or group version of which some resources may be unknown; `why` is a sentence."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class MonitorReading:
    """The daemon itself: its lag, its configuration and its readiness; `not_ready` has the reasons, in sentences.

    A stalled watch is found within `stall_detection` seconds; None if audits are off. `tainted_seconds` is the total
    time in which the daemon was late itself. `threshold`, `events_target` and `minutes_target` are those of the common
    objective, which a watch may override. `witnesses` is None if none are wanted. `incomplete_groups` are those
    that discovery could not read completely. `missing` says in sentences which configured resources are not served.
    """

    build: BuildReading
    cluster: str | None
    started_wall: float
    loop_lag: HistogramReading
    tainted_seconds: float
    reload_succeeded: bool
    reloaded_wall: float
    paused: bool
    stall_detection: float | None
    threshold: float
    events_target: float
    minutes_target: float
    not_ready: tuple[str, ...]
    shard: ShardReading = ShardReading(index=0, count=1, elsewhere=0)
    witnesses: WitnessReading | None = None
    instance: InstanceName = UNNAMED
    incomplete_groups: tuple[IncompleteGroup, ...] = ()
    missing: tuple[str, ...] = ()
