"""The reference of the metrics, generated from their catalogue."""

from collections.abc import Iterable, Sequence

from watchslo.serve.metrics import FAMILIES, SECTIONS, WATCH, Detail, Family, Label, MetricView, Stability

_INTRODUCTION = """\
# Metrics

The metrics that `/metrics` exposes, in Prometheus' text format, OpenMetrics or protobuf, as the scraper accepts.
Generated from the code (`make docs`). The [glossary](glossary.md) explains the terms.

- `metrics: basic`, the default, has at most 53 series per watch: those that objectives and alerts need. Labels and
  metrics after *full:* need `metrics: full`; `/api/v1/status` has them in both cases. Additional series are:
  - one for each threshold that is not yet an `le`;
  - the histograms `watchslo_creation_to_watch_seconds`, and `watchslo_representation_delay_seconds` for a watch with
    `reference`;
  - 2 for the headroom of a busy watch (metrics named `watchslo_watch_headroom_*`);
  - for a watch that is late enough to be probed, a histogram for each of two hops, and 2 for the age of its cache.
- `mode: node` is for instances with ticks that are too slow for quantiles. It has the metrics with a mark under
  *Node*, with the same labels unless that column names others: at most 40 series for one watch at one apiserver.
  Their values are counted or proven.
- *watch* in the column of labels stands for `watch`, `group`, `resource` and `apiserver`.
- Names, types and labels are a contract: a rename keeps the old name for one minor version. Those of *beta* metrics may
  change.
- Counters start at 0, except for combinations of labels that depend on the cluster. An unknown value is absent,
  never 0: a quantile without events has no series.
- `watchslo_list_duration_seconds` and `watchslo_lists_failed_total` start at 0 for the strategies of an apiserver's
  watches, and their fallbacks. Other strategies have no series.
- Metrics of watches are those of the last evaluation, at most five seconds old; all others are at most a second old.
- The SLI is `watchslo_estimated_events_total{verdict="within"}` over all of it. Every configured threshold is also an
  `le` of `watchslo_apiserver_timespan_seconds`.
- A histogram that is *native* is also a [native histogram](howto/native-histograms.md), of one series instead of 16 or
  more, for a Prometheus that asks for it.
- Each instance watches for itself: ratios remain valid when summed, counts of one resource do not, and quantiles are
  never averaged.
- Names, labels and contents of objects are never labels.
"""


_PROCESS = """\
## The process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds` are the standard metrics of Prometheus clients.
"""

_SHARED = 3  # a label of this many families is listed as "many"
_LISTED = 20  # a label with more values links to the page that explains them
_REASONS = "[these reasons](watching.md#why-watches-end)"


def page() -> str:
    """Return the page `docs/metrics.md`, in Markdown."""
    sections = (_section(title, families) for title, families in SECTIONS.items())
    return "\n".join([_INTRODUCTION, *sections, _label_section(), _PROCESS])


def _section(title: str, families: Iterable[Family]) -> str:
    rows = ((f"`{f.name}`", _type(f), _labels(f), _of_node(f), f.help) for f in families)
    return f"## {title}\n\n" + _table(("Metric", "Type", "Labels", "Node", "Meaning"), rows)


def _type(family: Family) -> str:
    marks = [*(["native"] if family.native else []), *(["beta"] if family.stability is Stability.BETA else [])]
    return ", ".join([str(family.type), *marks])


def _labels(family: Family) -> str:
    """The labels at `basic`, then those at `full` if they differ."""
    shown = [_label_names(family.basic)] if family.basic else []
    if family.full:
        full = _label_names(family.full)
        shown += [] if full in shown else [f"*full:* {full}"]
    return "; ".join(shown)


def _of_node(family: Family) -> str:
    """A mark if `mode: node` has the family, or its labels there if they differ from those at `basic`."""
    view = family.view(Detail.NODE)
    if view is None:
        return ""
    shown = _label_names(view)
    return "✓" if family.basic is None or shown == _label_names(family.basic) else shown


def _label_names(view: MetricView) -> str:
    per_watch = view.labels[: len(WATCH)] == WATCH
    own = view.labels[len(WATCH) :] if per_watch else view.labels
    names = [*(["*watch*"] if per_watch else []), *(f"`{label.name}`" for label in own)]
    return " ".join(names) or "none"


def _label_section() -> str:
    users: dict[Label, list[str]] = {}
    for family in FAMILIES:
        for label in _distinct_labels(family):
            users.setdefault(label, []).append(f"`{family.name}`")
    rows = ((f"`{label.name}`", _used_by(names), label.meaning, _values(label)) for label, names in users.items())
    return "## Labels\n\n" + _table(("Label", "On", "Meaning", "Values"), rows)


def _distinct_labels(family: Family) -> Iterable[Label]:
    views = (view for view in map(family.view, Detail) if view)
    return dict.fromkeys(label for view in views for label in view.labels)


def _used_by(names: Sequence[str]) -> str:
    return "many" if len(names) >= _SHARED else ", ".join(names)


def _values(label: Label) -> str:
    if len(label.values) > _LISTED:
        return _REASONS
    return ", ".join(f"`{value}`" for value in label.values) or "any"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))
