"""The rollups that clusters send to the global level of a fleet minute by minute, for `promtool test rules`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.support.exposed import Change, constant
from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.rollup import rollup_names

BUDGET = 0.01
EVENTS_A_SECOND = 20.0
HEALTHY: Mapping[str, float] = {
    **dict.fromkeys(rollup_names(Config()), 0.0),
    names.ROLLUP_EVENTS: EVENTS_A_SECOND,
    names.ROLLUP_ALLOWED_EVENTS: BUDGET * EVENTS_A_SECOND,
    names.ROLLUP_GOOD_MINUTES: 1.0,
    names.ROLLUP_JUDGED_MINUTES: 1.0,
    names.ROLLUP_MEASURED_TIME: 1.0,
    names.ROLLUP_TICKING: 1.0,
    names.ROLLUP_INSTANCES: 3.0,
    names.ROLLUP_RECORDED: 259_200.0,
}
OWN_LABELS = {names.ROLLUP_WORST: {"watch": "pods"}, names.ROLLUP_INSTANCES: {"version": "1.2.3"}}


@dataclass(frozen=True, slots=True)
class Sender:
    """A Prometheus of a cluster, which sends a healthy rollup except for `values`, from `begins` until `ends`.

    A value is None for a series that it does not send.
    """

    cluster: str
    replica: str = "a"
    values: Mapping[str, Change | float | None] = field(default_factory=dict)
    begins: int = 0
    ends: int = 1_000_000
    labels: Mapping[str, str] = field(default_factory=dict)

    def series(self, minutes: int) -> Iterable[dict[str, str]]:
        for name, value in {**HEALTHY, **self.values}.items():
            if value is None:
                continue
            change = constant(value) if isinstance(value, float) else value
            own = {"cluster": self.cluster, "replica": self.replica, **OWN_LABELS.get(name, {}), **self.labels}
            shown = ",".join(f'{key}="{text}"' for key, text in own.items() if text)
            yield {"series": f"{name}{{{shown}}}", "values": " ".join(self._values(change, minutes))}

    def _values(self, change: Change, minutes: int) -> Iterable[str]:
        for minute in range(minutes + 1):
            yield f"{change(minute):.9g}" if self.begins <= minute < self.ends else "_"


def late(share: float, since: int = 0) -> dict[str, Change | float | None]:
    """Return the values of a cluster of whose events a share is late from a minute on, in all windows."""

    def burns(minute: int) -> float:
        return share / BUDGET * (minute >= since)

    return {
        names.ROLLUP_LATE_EVENTS: lambda minute: share * EVENTS_A_SECOND * (minute >= since),
        names.ROLLUP_WORST: lambda minute: 3600 * share * EVENTS_A_SECOND * (minute >= since),
        **{names.rollup_burn_rate(window): burns for window in ("30m", "1h", "6h", "1d", "3d")},
    }
