"""What each judge expects during a fault. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from watchslo.snapshot import Cause


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters in `counted` must rise, those in `also` may, and no other; the names are in `observed_daemon.py`.

    The fault lasts until the counters of `until` have risen, each by `times`. Every write must be delivered in the end.
    Only if the server itself `forgets` some may these be inside a reported gap. With `from_start`, counters count from
    the start of the daemon, and not from the beginning of the fault.
    """

    counted: frozenset[str]
    also: frozenset[str] = frozenset()
    until: tuple[str, ...] = ()
    times: int = 1
    seconds: float = 0.0
    forgets: bool = False
    from_start: bool = False


@dataclass(frozen=True, slots=True)
class Truth:
    """A cause that is right; `here` requires the name of the apiserver that was hit, `watch` that of a watch."""

    cause: Cause
    here: bool = False
    watch: str | None = None


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert of the rules by its name, and the labels that distinguish it from others of that name.

    `slow` alerts have windows of days; their windows are shrunk more, in a second Prometheus. `cluster` is the cluster
    of the alert if that is not the one of its lane.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    cluster: str | None = None

    @property
    def id(self) -> str:
        return "-".join((self.name, *self.labels.values()))

    def firing_labels(self, cluster: str) -> dict[str, str]:
        """Return the labels of the alert when it fires for a lane of this cluster."""
        return {"alertname": self.name, **self.labels, "cluster": self.cluster or cluster}


@dataclass(frozen=True, slots=True)
class Raised:
    """The alerts that a fault raises in the lane of a cluster."""

    cluster: str
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class ExpectedAlert:
    """Any alert of `names` must fire if the fault lasts `after` seconds; it may fire sooner."""

    names: frozenset[str]
    after: float


@dataclass(frozen=True, slots=True)
class OnCall:
    """What is right during a fault for readers on call: no rule of theirs is shrunk.

    `verdicts` are the words that are right, and `tolerated` those that are neither right nor wrong. `alerts` must fire;
    `allowed` alerts may, and `silenced` ones too, but an inhibition must keep them from notifying. No other alert may
    begin to fire. The fault lasts for `seconds`, or as long as it takes to make it. `words` are those of the
    page, if they differ from those of the table.
    """

    verdicts: frozenset[str]
    seconds: float = 0.0
    words: str = ""
    alerts: tuple[ExpectedAlert, ...] = ()
    allowed: frozenset[str] = frozenset()
    silenced: frozenset[str] = frozenset()
    tolerated: frozenset[str] = frozenset()
