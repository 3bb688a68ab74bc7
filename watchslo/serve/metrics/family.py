"""A metric family: its name, type, stability and help, and its series in each mode and at each level of detail."""

from dataclasses import dataclass
from enum import StrEnum

from watchslo.serve.metrics.views import MetricView


class Type(StrEnum):
    """The Prometheus type of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(StrEnum):
    """A stable family keeps its old name for one minor version when it is renamed; a beta family may change."""

    STABLE = "stable"
    BETA = "beta"


class Detail(StrEnum):
    """What is exposed: `node` with `mode: node`, otherwise the configuration's level `metrics`.

    `node` leaves out all estimates and keeps an instance with one watch at 40 series or fewer. `basic` keeps a watch
    at 53 series or fewer, whatever its strategy. `full` has everything.
    """

    NODE = "node"
    BASIC = "basic"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family. `basic` is None if only `full` has it; `full` is None if it is the same as `basic`.

    `node` is the view with `mode: node`, or True if it is the view of `basic`. It must not contain an estimate. The
    readings of a `native` histogram have native buckets.
    """

    name: str
    type: Type
    stability: Stability
    help: str
    basic: MetricView | None
    full: MetricView | None
    node: MetricView | bool
    native: bool = False

    def view(self, detail: Detail) -> MetricView | None:
        """Return the view at a level of detail; None if the family is left out there."""
        match detail:
            case Detail.NODE:
                return self.node if isinstance(self.node, MetricView) else self.basic if self.node else None
            case Detail.BASIC:
                return self.basic
            case Detail.FULL:
                return self.full or self.basic


@dataclass(frozen=True, slots=True)
class Declare:
    """Declares families of one type: `counter("name", "Help.", basic=..., full=..., node=..., beta=...)`."""

    type: Type

    def __call__(
        self,
        name: str,
        help: str,  # noqa: A002 - the name of Prometheus' field
        *,
        basic: MetricView | None = None,
        full: MetricView | None = None,
        node: MetricView | bool = False,
        beta: bool = False,
        native: bool = False,
    ) -> Family:
        """Return the family `watchslo_<name>`."""
        stability = Stability.BETA if beta else Stability.STABLE
        return Family(f"watchslo_{name}", self.type, stability, help, basic, full, node, native)


counter, gauge, histogram = map(Declare, (Type.COUNTER, Type.GAUGE, Type.HISTOGRAM))
