"""Readings of one apiserver: what it is asked for, and what its own metrics say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from watchslo.model import Interval
from watchslo.snapshot.figures import HistogramReading, WindowReading
from watchslo.snapshot.watches import OutcomeReading


@dataclass(frozen=True, slots=True)
class TimeTravelReading:
    """Answers of an apiserver that were older than an earlier answer: how many, and how far back in total.

    `revisions` is None if revisions are no counts.
    """

    count: int = 0
    revisions: int | None = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ResourceFigures:
    """What an apiserver counted of one resource between two reads of its metrics.

    `received` events reached its watch cache, `terminated` watches were closed because they did not take their events,
    and `parked` watches wait for that at the second read. `dispatch` has by stage how long events took within the
    apiserver, in seconds. Its watch cache `advanced` by so many revisions; None if the apiserver does not say.
    """

    received: int = 0
    terminated: int = 0
    parked: int = 0
    dispatch: Mapping[str, HistogramReading] = field(default_factory=dict)
    advanced: int | None = None


@dataclass(frozen=True, slots=True)
class ApiserverFigures:
    """What one apiserver process counted in `seconds`, between two reads of its metrics; the first was `since_wall`.

    `etcd` are requests for single objects, `read_wait` waits of consistent reads for the watch cache, `conversion`
    calls of conversion webhooks, and `admission` calls of validating webhooks: durations in seconds, None if there were
    none. `listed` objects were sent by lists and as initial events, None if the apiserver does not count them;
    `rejected` requests were refused. `inflight` and `queued` are the requests at the second read, None if not known,
    and `cpu` is the mean number of busy cores. `resources` has the watched resources, as kubectl names them.
    """

    since_wall: float
    seconds: float
    etcd: HistogramReading | None = None
    read_wait: HistogramReading | None = None
    conversion: HistogramReading | None = None
    admission: HistogramReading | None = None
    listed: int | None = None
    rejected: int = 0
    inflight: int | None = None
    queued: int | None = None
    cpu: float | None = None
    resources: Mapping[str, ResourceFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApiserverMetricsReading:
    """The metrics that an apiserver publishes of itself: the newest page, and what changed between two reads.

    `obstacle` says in a sentence why there are no new figures; None if there are. `processes` is how many processes
    may answer at the address, several behind a load balancer. `size` is the page's, in bytes. `recent` covers the time
    between the two newest reads of one process, `minute` about a minute; they are None until there are two.
    """

    obstacle: str | None = None
    processes: int = 0
    size: int = 0
    recent: ApiserverFigures | None = None
    minute: ApiserverFigures | None = None


class ApiserverRole(StrEnum):
    """What an apiserver is asked for: watches of its resources, only its number and addresses, or only ticks."""

    MEMBER = "member"
    SERVICE = "service"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True)
class ApiserverReading:
    """One apiserver and the requests to it: `requests` counts by (kind, code), `audits` by result.

    `not_ready` counts the 429s of watch caches that were not ready. `unproven` says why its revisions cannot be trusted
    to be etcd's; None if they can. `peers` is how many apiservers its address stands for, None if unknown. `offset` is
    its wall clock minus ours, `offset_steps` how often that jumped. `unresponsive_for` is for how many seconds it has
    sent nothing although it was asked, None while it answers; `refuses` says that it refuses connections, and
    `withdrawn` that the cluster announces it no more. `combined` is the last minute of all its watches measured by the
    ticks of all apiservers, `alone` by its own ticks only; both are None unless several apiservers tick. `checked`
    counts the checks of guarantees of watches that have ended. `own_metrics` is None unless they are read.
    """

    name: str
    role: ApiserverRole
    version: str | None
    peers: int | None
    unproven: str | None
    offset: Interval | None
    offset_steps: int
    time_travel: TimeTravelReading
    combined: WindowReading | None
    alone: WindowReading | None
    requests: Mapping[tuple[str, str], int]
    audits: Mapping[str, int]
    outcomes: OutcomeReading
    not_ready: int = 0
    unresponsive_for: float | None = None
    refuses: bool = False
    withdrawn: bool = False
    checked: Mapping[str, int] = field(default_factory=dict)
    own_metrics: ApiserverMetricsReading | None = None

    @property
    def watched(self) -> bool:
        """Whether its resources are watched."""
        return self.role is ApiserverRole.MEMBER
