"""Which metrics, labels and label values exist, and which unknown ones a PromQL expression or a page names.

Dashboards, rules and pages name hundreds of them; a name that nothing exposes means an empty panel or an alert
that never fires. Known are our own metrics, the recorded series, the metrics of a kube-apiserver
(`tests/golden/apiserver-metrics.txt`), and a few others (`FOREIGN`).
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tests.conftest import GOLDEN
from tests.support.promql import Matcher, NotPromqlError, read
from tests.support.written import rules
from watchslo.serve.metrics import FAMILIES, Detail, Type

ATTACHED = frozenset(
    {"job", "instance", "namespace", "pod", "container", "endpoint", "service", "node", "cluster", "replica"}
)
"""What Prometheus, its operator and our PodMonitor attach; the user names `cluster` and `replica`."""

LEVELS: Mapping[str, frozenset[str]] = {
    "instance_apiserver_domain": frozenset({"apiserver", "domain"}) | ATTACHED,
    "instance_apiserver_resource": frozenset({"apiserver", "group", "resource", "watch"}) | ATTACHED,
    "apiserver_resource": frozenset({"cluster", "apiserver", "group", "resource", "watch"}),
    "resource_step": frozenset({"cluster", "group", "resource", "step"}),
    "instance_apiserver": frozenset({"apiserver"}) | ATTACHED,
    "apiserver": frozenset({"cluster", "apiserver"}),
    "cluster": frozenset({"cluster"}),
    "rollup": frozenset({"cluster"}),
    "rollup_resource": frozenset({"cluster", "watch"}),
    "fleet": frozenset({"cluster"}),
    "fleet_resource": frozenset({"cluster", "watch"}),
    "fleet_replica": frozenset({"cluster", "replica"}),
}
"""The labels that a recorded series keeps, by the first part of its name."""

FOREIGN: Mapping[str, Collection[str]] = {
    # Prometheus itself
    "up": (),
    "scrape_duration_seconds": (),
    "scrape_samples_scraped": (),
    "scrape_samples_post_metric_relabeling": (),
    "scrape_series_added": (),
    "ALERTS": ("alertname", "alertstate", "severity", "slo", "apiserver"),
    # etcd
    "etcd_disk_wal_fsync_duration_seconds": ("le",),
    "etcd_disk_backend_commit_duration_seconds": ("le",),
    "etcd_network_peer_round_trip_time_seconds": ("To", "le"),
    "etcd_server_leader_changes_seen_total": (),
    "etcd_server_has_leader": (),
    "etcd_mvcc_db_total_size_in_bytes": (),
    "etcd_server_quota_backend_bytes": (),
    "etcd_debugging_mvcc_slow_watcher_total": (),
    "etcd_debugging_mvcc_pending_events_total": (),
    # the kubelet's cAdvisor, kube-state-metrics and the node exporter
    "container_cpu_cfs_throttled_periods_total": (),
    "container_cpu_cfs_periods_total": (),
    "container_memory_working_set_bytes": (),
    "kube_pod_container_status_restarts_total": (),
    "kube_pod_container_status_last_terminated_reason": ("reason",),
    "kube_pod_created": ("namespace", "pod", "uid"),
    "kube_pod_status_ready_time": ("namespace", "pod", "uid"),
    "kube_state_metrics_watch_total": ("result", "resource"),
    "node_network_transmit_bytes_total": ("device",),
    "node_network_receive_bytes_total": ("device",),
    # controllers and other clients
    "workqueue_queue_duration_seconds": ("name", "le"),
    "workqueue_work_duration_seconds": ("name", "le"),
    "workqueue_depth": ("name",),
    "informer_processing_latency_seconds": ("name", "group", "version", "resource", "le"),
    "rest_client_requests_total": ("code", "host", "method"),
    "leader_election_master_status": ("name",),
    "rest_client_rate_limiter_duration_seconds": ("host", "verb", "le"),
}
"""Metrics of other programs that pages refer to, with their labels in addition to the attached ones."""

PREFIXES = re.compile(
    r"(?:watchslo|apiserver|etcd|watch_cache|process|go|container|node|workqueue|scrape_(?:duration|samples|series)|kube"
    r"|authentication|authorization|aggregator)_\w"
)
"""The prefixes of metric names. A word in a page with such a prefix must be a metric, or a term defined by us."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One name of a sample, and its labels; no values where they cannot be listed. `ours` are those of watchslo."""

    labels: Mapping[str, frozenset[str]]
    ours: bool = False


ANY: frozenset[str] = frozenset()
GO_WRITES_EXPONENTS = 1e6
_VARIABLE = re.compile(r"\$\w|\$\{|\{\{")  # of Grafana, or of an alert's annotation


# --- what exists -----------------------------------------------------------------------------------------------------


def _samples(
    name: str, kind: str, labels: Mapping[str, frozenset[str]], *, ours: bool = False, native: bool = False
) -> Iterator[tuple[str, Metric]]:
    """Yield the samples that Prometheus stores for a family, whichever form of a histogram it takes."""
    if kind in ("histogram", "summary"):
        common = {key: values for key, values in labels.items() if key != "quantile"}
        yield f"{name}_count", Metric(common, ours)
        yield f"{name}_sum", Metric(common, ours)
    if kind == "histogram":
        yield f"{name}_bucket", Metric({**labels, "le": ANY}, ours)
    if kind != "histogram" or native:
        yield name, Metric(labels, ours)


@cache
def exposed() -> Mapping[str, Metric]:
    """Return the samples that watchslo exposes, by name, with the labels of `metrics: full` and of `basic`."""
    found: dict[str, Metric] = {}
    for family in FAMILIES:
        labels: dict[str, frozenset[str]] = {}
        for view in filter(None, map(family.view, Detail)):
            labels |= {label.name: frozenset(label.values) for label in view.labels}
        found.update(_samples(family.name, family.type.value, labels, ours=True, native=family.native))
    return found


@cache
def histograms() -> frozenset[str]:
    """Return the families without a sample of the same name: pages may name them, queries may not."""
    ours = {family.name for family in FAMILIES if family.type is Type.HISTOGRAM and not family.native}
    theirs = {metric.name for metric in apiserver_metrics() if metric.type == "histogram"}
    foreign = {name for name, labels in FOREIGN.items() if "le" in labels}
    return frozenset(ours | theirs | foreign)


@dataclass(frozen=True, slots=True)
class ApiserverMetric:
    """A line of the golden list; `when` is the condition for the metric to exist, or empty if it always exists."""

    name: str
    type: str
    labels: Mapping[str, frozenset[str]]
    when: str = ""


@cache
def apiserver_metrics() -> tuple[ApiserverMetric, ...]:
    """Return the metrics of a kube-apiserver from the golden list."""
    lines = (GOLDEN / "apiserver-metrics.txt").read_text().splitlines()
    return tuple(_apiserver_metric(line) for line in lines if line and not line.startswith("#"))


def _apiserver_metric(line: str) -> ApiserverMetric:
    described, _, when = line.partition("  ")
    name, kind, labels = described.split(" ")
    found: dict[str, frozenset[str]] = {}
    for label in labels.split(",") if labels != "-" else ():
        key, _, values = label.partition("=")
        found[key] = frozenset(values.split("|")) if values else ANY
    return ApiserverMetric(name, kind, found, when.strip())


@cache
def recorded() -> Mapping[str, Metric]:
    """Return the recorded series, with the labels of their level and those that the rule keeps."""
    found: dict[str, Metric] = {}
    for rule in (rule for rule in rules() if "record" in rule):
        level = str(rule["record"]).partition(":")[0]
        labels = LEVELS[level] | read(rule["expr"]).kept
        found[rule["record"]] = Metric(dict.fromkeys(labels, ANY), ours=True)
    return found


@cache
def known() -> Mapping[str, Metric]:
    """Return each sample that a query may name."""
    found: dict[str, Metric] = {}
    for name, labels in FOREIGN.items():
        kind = "histogram" if "le" in labels else "gauge"
        found.update(_samples(name, kind, dict.fromkeys((label for label in labels if label != "le"), ANY)))
    for metric in apiserver_metrics():
        found.update(_samples(metric.name, metric.type, metric.labels))
    return {**found, **exposed(), **recorded()}


@cache
def words() -> frozenset[str]:
    """Return the values of our labels, some of which look like metrics, as `apiserver_sending` does."""
    return frozenset(value for metric in exposed().values() for values in metric.labels.values() for value in values)


# --- what does not exist ---------------------------------------------------------------------------------------------


def wrong_in_query(expression: str) -> list[str]:
    """Return a sentence for each unknown metric, label or value in an expression."""
    try:
        query = read(expression)
    except NotPromqlError as error:
        return [str(error)]
    wrong: list[str] = []
    labels = set(ATTACHED) | query.created
    for name, matchers in query.selectors:
        metric = known().get(name)
        if metric is None:
            hint = ": a histogram has only _bucket, _count and _sum" if name in histograms() else ""
            wrong.append(f"nothing exposes {name}{hint}")
            labels |= {*query.grouping}  # one complaint is enough
            continue
        labels |= metric.labels.keys()
        wrong += [f"{name}: {said}" for matcher in matchers for said in _wrong_matcher(metric, matcher)]
    wrong += [f"no metric here has a label {label}" for label in sorted(query.grouping - labels)]
    return wrong


def _wrong_matcher(metric: Metric, matcher: Matcher) -> Iterator[str]:
    if matcher.label not in metric.labels.keys() | ATTACHED:
        yield f"has no label {matcher.label}"
        return
    if _VARIABLE.search(matcher.value):
        return
    if matcher.label == "le":
        yield from _wrong_bound(metric, matcher)
        return
    values = metric.labels.get(matcher.label, ANY)
    if not values:
        return
    if matcher.operator in ("=~", "!~"):
        wanted = matcher.value.split("|") if re.fullmatch(r"[\w.|-]+", matcher.value) else [matcher.value]
        lost = [one for one in wanted if not any(re.fullmatch(one, value) for value in values)]
    else:
        lost = [matcher.value] if matcher.value not in values | {""} else []
    yield from (f"{matcher.label} is never {one}" for one in lost)


def _wrong_bound(metric: Metric, matcher: Matcher) -> Iterator[str]:
    """Python prints a bound of one second as 1.0, Go as 1, and Prometheus compares texts."""
    if matcher.value == "+Inf":
        return
    try:
        bound = float(matcher.value)
    except ValueError:
        yield f"{matcher.value} is no bound of a bucket"
        return
    text = str(bound)
    if not metric.ours:
        text = text.removesuffix(".0") if bound < GO_WRITES_EXPONENTS else f"{bound:g}"
    if matcher.value != text:
        yield f"le is {text}, and never {matcher.value}"


def wrong_in_text(text: str) -> list[str]:
    """Return the same for prose: names that look like metrics, and the matchers that directly follow them.

    `watchslo_list_*` stands for all that begin so.
    """
    wrong: list[str] = []
    for match in re.finditer(r"(?<![\w./:$-])([a-zA-Z_][\w:]*\w)(\*)?(\{[^{}\n]*=[^{}\n]*\})?", text):
        name, star, matchers = match[1], match[2], match[3]
        if not (PREFIXES.match(name) or ":watchslo_" in name) or name in words() | LEVELS.keys():
            continue
        if star:
            if not any(one.startswith(name) for one in known()):
                wrong.append(f"nothing exposes anything like {name}*")
        elif matchers and name not in histograms():
            wrong += wrong_in_query(name + matchers)
        elif matchers:
            wrong += wrong_in_query(f"{name}_bucket{matchers}")
        elif name not in known() and name not in histograms():
            wrong.append(f"nothing exposes {name}")
    return wrong
