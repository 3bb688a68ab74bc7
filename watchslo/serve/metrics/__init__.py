"""The catalogue of the metrics: each family is declared once, in the module of its subject.

Names, types and labels are a contract with dashboards and rules. Counters exist with 0 from the start of what they
count, because `increase` does not see a series that begins above 0. An unknown value is absent, never 0.
"""

from collections.abc import Iterable
from itertools import chain

from watchslo.serve.metrics.apiserver import APISERVERS
from watchslo.serve.metrics.clock import CLOCK
from watchslo.serve.metrics.family import Detail, Family, Stability, Type
from watchslo.serve.metrics.informers import INFORMERS
from watchslo.serve.metrics.labels import WATCH, Label
from watchslo.serve.metrics.latency import LATENCY, WINDOW_QUANTILES, window_quantiles
from watchslo.serve.metrics.monitor import CAUSES, LATE_BEAT_SECONDS, MONITOR
from watchslo.serve.metrics.protocol import GUARANTEES, LISTS, MISSED, WATCHES
from watchslo.serve.metrics.reactions import REACTIONS
from watchslo.serve.metrics.views import MetricView

__all__ = (
    "FAMILIES",
    "LATE_BEAT_SECONDS",
    "SECTIONS",
    "WATCH",
    "Detail",
    "Family",
    "Label",
    "MetricView",
    "Stability",
    "Type",
    "exposed",
)

SECTIONS = {
    "Latency and objectives": LATENCY,
    "Reactions": REACTIONS,
    "Informers": INFORMERS,
    "Watches": WATCHES,
    "Lists and headroom": LISTS,
    "Gaps and stalls": MISSED,
    "Guarantees": GUARANTEES,
    "Clocks": CLOCK,
    "Apiservers": APISERVERS,
    "Causes": CAUSES,
    "watchslo itself": MONITOR,
}
FAMILIES = tuple(chain.from_iterable(SECTIONS.values()))


def exposed(detail: Detail, quantiles: Iterable[float] | None = None) -> list[tuple[Family, MetricView]]:
    """Return the families of a level of detail, each with its view.

    `quantiles` are those of rolling windows, by default those of the level.
    """
    views = [(family, family.view(detail)) for family in FAMILIES]
    if quantiles is not None:
        chosen = window_quantiles(detail, frozenset(quantiles))
        views = [(family, chosen if family is WINDOW_QUANTILES else view) for family, view in views]
    return [(family, view) for family, view in views if view]
