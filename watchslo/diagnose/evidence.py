"""Evidence for the rules: which watches are late, on which hop, and which apiservers and watches are healthy.

All of it describes the last seconds: it comes from short windows and from differences between snapshots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import apiserver_text, resource_key
from watchslo.snapshot import ApiserverFigures, ClientReading, ReactionReading, WatchReading

SPAN_SECONDS = 17.5  # three and a half evaluations: counters are compared over about fifteen seconds
AFTERMATH_SECONDS = 30.0  # after a stall, events that come late were held up by it
ERRATIC_FACTOR = 5.0  # above the ratio of two neighbouring edges of the histogram: one value alone cannot reach it
ERRATIC_SECONDS = 0.1  # shorter ticks are prompt, however much they differ
MOST_SHARE = 0.5  # of a delay: the hop that takes so much of it is where the time is lost
STALLED, FROZEN = "stalled", "frozen"  # results of an audit
Key = tuple[str, str]
"""The name of an apiserver and the name of a watch."""


class Place(StrEnum):
    """The side of the apiserver's watch cache on which the time is lost."""

    STORAGE = "storage"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class EvidenceFigure:
    """A quantile of a recent window, in seconds."""

    q: float
    seconds: float
    events: int


@dataclass(frozen=True, slots=True)
class Watch:
    """The evidence of one watch at one apiserver.

    - `figure`: the quantile that shows that the watch is late, or its median if it is not; None with too few events.
    - `events`, `bytes`: received between each two snapshots, the newest step first.
    - `lateness`: in seconds, or None if the watch is not late.
    - `place`: where the time is lost, or None if the watch is not late or the place is unknown.
    - `scattered`: some events are much later than others. Load causes this, a plain delay does not.
    - `grows`: the median rises with each snapshot.
    - `stuck`: the watch delivers nothing although there are events.
    - `catch_ups`: in the last `AFTERMATH_SECONDS`, bursts after a pause that began with old events.
    - `stalls`: how often audits found a stall in the last `AFTERMATH_SECONDS`; the watch was then reopened.
    - `whole_late`: the quantile that shows that its whole objects arrive late although the watch itself is in time.
    - `expired`: the 410s of the last minute, or 0 if there was none in the last `SPAN_SECONDS`.
    """

    key: Key
    reading: WatchReading
    events: tuple[int, ...]
    bytes: tuple[int, ...]
    expired: int
    slow_consumer: int
    figure: EvidenceFigure | None
    creation: EvidenceFigure | None
    lateness: float | None
    place: Place | None
    scattered: bool
    grows: bool
    stuck: bool
    stalls: int
    whole_late: EvidenceFigure | None
    catch_ups: int = 0

    @property
    def apiserver(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def resource(self) -> str:
        """Return the name that kubectl accepts."""
        return resource_key(self.reading.resource, self.reading.group)

    @property
    def late(self) -> bool:
        return self.lateness is not None

    @property
    def healthy(self) -> bool:
        """Return whether the watch is known not to be late; with too few events it is neither late nor healthy."""
        return self.figure is not None and not self.late and not self.stuck

    @property
    def threshold(self) -> float:
        return self.reading.track.objective.threshold


@dataclass(frozen=True, slots=True)
class ApiserverEvidence:
    """The evidence of one apiserver; durations are in seconds.

    - `tick`: the median round trip of its ticks, or None with too few.
    - `low`, `high`: the quantiles 0.1 and 0.9 of round trips, or None with too few. They cover a shorter time than
      `tick`, because a change of the delay would look like scatter.
    - `silent_for`: since the last answer to a tick.
    - `answers`, `cache_answers`: answers of any kind, and answers from its watch caches, in the last step.
    - `unanswered`, `refusals`: requests without an answer, and 429s that are a sign of load, in the last
      `SPAN_SECONDS`.
    - `cache_trip`: how long reads of its watch caches take, or None without such reads.
    - `kine`: it keeps objects in kine.
    - `polls`: it finds the commits of other servers by a poll of its storage.
    - `own`: its own figures of the last seconds, or None if they are not known to be those of a single process.
    """

    name: str
    tick: float | None
    low: float | None
    high: float | None
    slow: bool
    silent_for: float
    silent: bool
    answers: int
    cache_answers: int
    unanswered: int
    refusals: int
    cache_trip: float | None
    kine: bool
    polls: bool
    watches: tuple[Watch, ...]
    own: ApiserverFigures | None = None

    @property
    def text(self) -> str:
        """Return its words in a sentence."""
        return apiserver_text(self.name)

    @property
    def first_text(self) -> str:
        """Return its words at the beginning of a sentence."""
        return apiserver_text(self.name, is_first=True)

    @property
    def troubled(self) -> bool:
        return self.slow or self.silent

    @property
    def dead(self) -> bool:
        """Return whether the apiserver neither answers nor sends anything."""
        return self.silent and not self.answers and not any(watch.bytes[0] for watch in self.watches)

    @property
    def erratic(self) -> bool:
        """Return whether some ticks are slow while others are still prompt."""
        if self.low is None or self.high is None:
            return False
        return self.high >= max(ERRATIC_SECONDS, ERRATIC_FACTOR * self.low)

    @property
    def cache_slow(self) -> bool | None:
        """Return whether reads of its caches take as long as its ticks or watches; None without such reads."""
        if self.cache_trip is None:
            return None
        lateness = [watch.lateness for watch in self.watches if watch.lateness is not None]
        others = [*lateness, *([self.tick] if self.slow and self.tick is not None else [])]
        return bool(others) and self.cache_trip >= 0.5 * min(others)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of the rules; `tainted` is the share of the last seconds in which watchslo itself was late.

    `apiservers` are those with watches. `witnesses` answer ticks now and have no watches: one that does not answer may
    only be out of our reach, so it is no evidence. `by_name` has the watches of each name at all apiservers.
    `reactions` are those of controllers, and `clients` have informers.
    """

    tainted: float
    apiservers: Mapping[str, ApiserverEvidence]
    witnesses: Mapping[str, ApiserverEvidence]
    watches: Mapping[Key, Watch]
    by_name: Mapping[str, Sequence[Watch]]
    reactions: Sequence[ReactionReading]
    clients: Sequence[ClientReading]

    @property
    def ticked(self) -> list[ApiserverEvidence]:
        """Return the apiservers whose ticks can be compared."""
        return [*self.apiservers.values(), *self.witnesses.values()]

    @property
    def several_ticked(self) -> bool:
        return len(self.ticked) > 1

    @property
    def several_watched(self) -> bool:
        """Return whether there are watches of several apiservers to compare."""
        return len(self.apiservers) > 1

    def peers(self, watch: Watch) -> list[Watch]:
        """Return the same watch at the other apiservers."""
        return [peer for peer in self.by_name[watch.name] if peer.apiserver != watch.apiserver]
