"""Pages as apiservers send them, and what is read from them."""

from collections.abc import Collection, Iterable

from watchslo.own_metrics.line_filter import LineFilter
from watchslo.own_metrics.page import MetricsPage, parse_page

RESOURCES = ("pods", "deployments.apps")
STARTED = 1_700_000_000.25


def histogram(
    name: str, labels: str, counts: Iterable[int], edges: Iterable[str] = ("0.005", "0.1", "1"), total: float = 1.5
) -> str:
    """Return the lines of one histogram; the last count is the total."""
    before = f"{labels}," if labels else ""
    *below, every = counts
    lines = [f'{name}_bucket{{{before}le="{edge}"}} {count}' for edge, count in zip(edges, below, strict=True)]
    ends = [
        f'{name}_bucket{{{before}le="+Inf"}} {every}',
        f"{name}_sum{{{labels}}} {total}",
        f"{name}_count{{{labels}}} {every}",
    ]
    return "\n".join([f"# TYPE {name} histogram", *lines, *ends]) + "\n"


def started(at: float = STARTED) -> str:
    return f"# HELP process_start_time_seconds Start time.\nprocess_start_time_seconds {at!r}\n"


def kept(text: str, piece: int = 1000) -> LineFilter:
    found = LineFilter()
    data = text.encode()
    for start in range(0, len(data), piece):
        found.feed(data[start : start + piece])
    found.finish()
    return found


def page(*parts: str, at: float = 100.0, resources: Collection[str] = RESOURCES) -> MetricsPage:
    work = parse_page(kept("".join(parts)).lines, resources, at, 1_700_000_000.0 + at)
    while True:
        try:
            next(work)
        except StopIteration as ended:
            found: MetricsPage = ended.value
            return found
