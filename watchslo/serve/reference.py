"""The reference of the metrics, written from the table that exposes them."""

from collections.abc import Iterable, Sequence

from watchslo.serve.metrics import FAMILIES, SECTIONS, WATCH, Detail, Family, Label, View

_INTRODUCTION = """\
# Metrics

Everything that `/metrics` exposes, in Prometheus' text format or OpenMetrics as the scraper accepts. This page is
generated from the code (`make golden`), so it is what you get.

- `metrics: basic`, the default, keeps a watch at 50 series or fewer, whatever its strategy and with an inventory; what
  stands after *full:* needs `metrics: full`. Basic has what objectives and alerts stand on; what only explains an alert
  (in which phase, of which kind, how many bytes) needs full, and is in `/api/v1/status` either way. On top come: one
  for each threshold that is no `le` yet; `watchslo_creation_to_watch_seconds`, a histogram of its own; 2 for the
  history of a busy watch; and for one that is late enough to be probed, a histogram for each of two hops and 2 for the
  age of its cache.
- `metrics: proven` is for instances whose ticks are too slow for quantiles. It has the families with a mark under
  *Proven*, with the same labels unless others stand there: at most 40 series for one watch at one apiserver. What
  they say is counted, or follows from proofs.
- *watch* among the labels stands for `watch`, `group`, `resource` and `apiserver`.
- *Stable* names, types and labels are a contract: a rename keeps the old name for one minor version. *Beta* ones may
  change.
- Counters exist with 0 from the start of what they count, but for combinations of labels that only a cluster can
  bring about. What is not known is absent, never 0: a quantile without events, or one below the round trip of the
  ticks, has no series.
- One process has one set of `le`, and every configured threshold is among those of
  `watchslo_apiserver_timespan_seconds`: with a threshold of 1 s the SLI is `_bucket{le="1.0"}` over `_count`.
- Each instance watches for itself: ratios survive summing, counts of one resource do not, and quantiles are never
  averaged.
- No object's name, label or content is ever a label.
"""


_PROCESS = """\
## The process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds` are those of every Prometheus client.
"""

_SHARED = 3  # a label of so many families needs no list of them


def reference() -> str:
    """The page `docs/metrics.md`, in Markdown."""
    sections = (_section(title, families) for title, families in SECTIONS.items())
    return "\n".join([_INTRODUCTION, *sections, _label_section(), _PROCESS])


def _section(title: str, families: Iterable[Family]) -> str:
    rows = ((f"`{f.name}`", str(f.type), _labels(f), _proven(f), str(f.stability), f.help) for f in families)
    return f"## {title}\n\n" + _table(("Metric", "Type", "Labels", "Proven", "Stability", "Meaning"), rows)


def _labels(family: Family) -> str:
    """What `basic` has, then what `full` has where that is another set."""
    shown = [_label_names(family.basic)] if family.basic else []
    if family.full:
        full = _label_names(family.full)
        shown += [] if full in shown else [f"*full:* {full}"]
    return "; ".join(shown)


def _proven(family: Family) -> str:
    """Whether it is in `proven`, and with which labels where these are others than those of `basic`."""
    view = family.view(Detail.PROVEN)
    if view is None:
        return ""
    shown = _label_names(view)
    return "✓" if family.basic is None or shown == _label_names(family.basic) else shown


def _label_names(view: View) -> str:
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
    return ", ".join(f"`{value}`" for value in label.values) or "as they come"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))
