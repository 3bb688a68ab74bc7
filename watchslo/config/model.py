"""The configuration as pydantic models: one class for each section, with defaults and checks across keys.

Keys are camelCase in YAML. Durations are seconds, sizes are bytes.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from watchslo.clock.storage_kind import StorageSetting
from watchslo.config.parts import divide_by_field, divide_by_hash, divide_by_label
from watchslo.config.values import (
    CollectorUrl,
    Duration,
    HeadSize,
    Listen,
    MultipleOf,
    Namespace,
    Ordinal,
    PageUrl,
    ResourceName,
    SelectorKey,
    SelectorValue,
    ShardSelector,
    Share,
    Size,
    Text,
    WatchableName,
    between,
    format_duration,
    from_text,
    parse_apiservers,
    parse_listen,
)
from watchslo.latency.estimate import QUANTILES
from watchslo.latency.objective import Objective
from watchslo.model import Resource, shard_name
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES
from watchslo.watch.strategy import PAGE_SIZE

_MOST_PARTS = 1_000  # of one watch: each is a connection
_MOST_VALUES = 100  # the selector of the rest names them all, and proxies limit the length of a URL
_DIVISIONS = {  # the other keys of each division
    "namespace": "values: [ci, web]",
    "label": "key: team, values: [ci, web]",
    "field": "key: spec.nodeName, values: [node-1, node-2]",
    "shardSelector": "parts: 4",
}
_NODE = re.compile(r"(?:^|,)spec\.nodeName==?([^,]+)")
_FIXED_FIELDS = re.compile(r"(metadata\.(name|namespace)!?==?[^,]*(,|$))+")  # an object never changes these
_MOST_SHARDS = 1_000  # each shard computes a hash for every watch and every shard
_LARGEST_PAGE = 10_000  # objects; larger pages only cost the apiserver memory
_TICK_SHARE = 0.5  # of the requests to an apiserver, guaranteed to ticks
_REQUESTS_PER_AUDIT = 2  # a consistent list of nothing, and a short watch
_USUAL_INTERVAL_SECONDS = 0.5  # of ticks
_TICKS_IN_THRESHOLD = 2  # at least; with fewer, quantiles cannot be judged
_BUILT_IN = (
    # Every cluster has these. Leases change often, so there are always samples. Secrets and ConfigMaps must be named
    # explicitly: the right to list them is the right to read their contents.
    "pods",
    "nodes",
    "namespaces",
    "services",
    "endpointslices.discovery.k8s.io",
    "serviceaccounts",
    "persistentvolumes",
    "persistentvolumeclaims",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "leases.coordination.k8s.io",
)
_CREATED_OFTEN = frozenset({"pods", "deployments.apps", "replicasets.apps"})


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, allow_inf_nan=False)


class KubernetesConfig(_Section):
    """The cluster to connect to. The defaults suit a pod, or a user with a kubeconfig.

    `apiservers` selects the apiservers whose watches are measured: `service` (the one that answers for the service),
    `each` (every one behind the service), or those at these URLs, which have a port and no slash at their end.
    `witnesses` says whether the announced apiservers that are not watched are ticked on: `auto` (those that answer) or
    `none`. `tls_server_name` is the name that certificates must have with `each`, with URLs and for witnesses. With
    `apiserver_metrics`, the metrics that apiservers publish of themselves are read as evidence for causes.
    """

    kubeconfig: Annotated[Text, AfterValidator(os.path.expanduser)] | None = None
    context: Text | None = None
    apiservers: Annotated[Literal["service", "each"] | tuple[str, ...], BeforeValidator(parse_apiservers)] = "service"
    witnesses: Literal["auto", "none"] = "auto"
    tls_server_name: Text | None = None
    apiserver_metrics: bool = False

    @model_validator(mode="after")
    def _check_tls_server_name(self) -> Self:
        if self.tls_server_name and self.apiservers == "service":
            raise ValueError(
                "`tlsServerName` is for the addresses of single apiservers; write apiservers: each, or remove it "
                "(for the service, set tls-server-name in the kubeconfig)"
            )
        return self


class EventsObjective(_Section):
    """The target share of events within the threshold over a period; burn rates refer to it."""

    target: Share = 0.99
    period: Annotated[Duration, between("1h", "366d")] = 30 * 86400.0


class MinutesObjective(_Section):
    """The target share of windows whose quantile is within the threshold.

    Windows with fewer than `min_events` are not judged. `window` is a multiple of 5 s, the length of a block of
    samples.
    """

    quantile: Share = 0.99
    window: Annotated[Duration, between("10s", "10m"), AfterValidator(MultipleOf("5s"))] = 60.0
    target: Share = 0.999
    min_events: int = Field(default=100, ge=1)


class ObjectiveConfig(_Section):
    """How late events may be. A watch may override any part of the common objective."""

    threshold: Annotated[Duration, between("1ms", "60s")] = 1.0
    events: EventsObjective = EventsObjective()
    minutes: MinutesObjective = MinutesObjective()

    def overridden_by(self, other: "ObjectiveConfig") -> "ObjectiveConfig":
        """Return this objective with the values that are set explicitly in the other one."""
        return self.model_copy(
            update={
                **other.model_dump(include={"threshold"}, exclude_unset=True),
                "events": self.events.model_copy(update=other.events.model_dump(exclude_unset=True)),
                "minutes": self.minutes.model_copy(update=other.minutes.model_dump(exclude_unset=True)),
            }
        )


class DivideConfig(_Section):
    """How a watch is divided into parts, which are watches of their own; each object belongs to exactly one part.

    There is one part for each of the `values`, and one for all other objects. `by: shardSelector` needs the number of
    `parts`, and apiservers with the feature gate ShardedListAndWatch (KEP-5866, alpha in 1.36).
    """

    by: Literal["namespace", "label", "field", "shardSelector"]
    key: SelectorKey | None = None
    values: tuple[SelectorValue, ...] = Field(default=(), max_length=_MOST_VALUES)
    parts: int | None = Field(default=None, ge=2, le=_MOST_PARTS)

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        example = _DIVISIONS[self.by]
        if any((getattr(self, key) in (None, ())) is (f"{key}: " in example) for key in ("key", "values", "parts")):
            raise ValueError(f"`by: {self.by}` needs other keys; write for example {{by: {self.by}, {example}}}")
        for value, count in Counter(self.values).items():
            if count > 1:  # its objects would belong to two parts
                raise ValueError(f"{value} is listed {count} times in `values`; keep one of them")
        return self

    @property
    def selectors(self) -> tuple[str, Mapping[str, str]]:
        """Which selector of the watch limits it to a part, and the selectors by the names of the parts."""
        match self.by:
            case "shardSelector":
                return "shard_selector", divide_by_hash(self.parts or 1)
            case "label":
                return "label_selector", divide_by_label(self.key or "", self.values)
            case _:
                return "field_selector", divide_by_field(self.key or "metadata.namespace", self.values)


class WatchConfig(_Section):
    """One watch, or with the resource `"*"` one watch of each resource that may be listed and watched.

    `page_size` is in objects. `inventory` keeps the revision of each object, to count what a gap hid. `hops` measures
    hops also while the watch is not late. `reference` opens a second watch, of whole objects, to see how much later
    these arrive.
    """

    resource: WatchableName
    name: Text | None = None
    namespace: Namespace | None = None
    field_selector: Text | None = None
    label_selector: Text | None = None
    shard_selector: ShardSelector | None = None
    divide: DivideConfig | None = None
    strategy: Literal["tail", "paged", "parallel", "stream", "cache"] = Field(default="tail", alias="list")
    page_size: int = Field(default=PAGE_SIZE, ge=1, le=_LARGEST_PAGE)
    inventory: bool = False
    representation: Literal["auto", "metadata", "table", "plain", "protobuf"] = "auto"
    creation: bool | None = None
    hops: bool = False
    reference: bool = False
    objective: ObjectiveConfig = ObjectiveConfig()

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.resource == "*" and self.name:
            raise ValueError('`name` would be given to many watches; remove it, or name one resource instead of "*"')
        self._check_division()
        self._check_list_options()
        self._check_metadata_options()
        self._check_reference()
        return self

    def _check_division(self) -> None:
        if self.divide is None:
            return
        if self.resource == "*":
            raise ValueError('`divide` is for one resource; name it instead of "*", or remove `divide`')
        if self.divide.by == "namespace" and self.namespace:
            raise ValueError("`divide` by namespace needs all namespaces; remove `namespace`, or divide by label")
        if self.divide.by == "shardSelector" and self.shard_selector:
            raise ValueError("`shardSelector` is what `divide` would set; remove one or the other")

    def _check_list_options(self) -> None:
        if self.strategy != "tail":
            return
        if self.inventory:
            raise ValueError(
                "`inventory` needs a list of the objects, which `list: tail` never requests; write list: paged"
            )
        if "page_size" in self.model_fields_set:
            raise ValueError("`pageSize` needs a list in pages, which `list: tail` never requests; write list: paged")

    def _check_metadata_options(self) -> None:
        if self.creation and any(part.may_gain_objects for part in self.parts):
            raise ValueError(
                "`creation` needs a watch without selectors, where ADDED means created; remove one or the other"
            )
        if self.creation and self.representation == "table":
            raise ValueError("`creation` needs metadata: a Table has no timestamps; write representation: metadata")
        if self.inventory and self.representation == "table":
            raise ValueError(
                "`inventory` needs metadata: a Table does not identify objects; write representation: metadata"
            )

    def _check_reference(self) -> None:
        if self.reference and self.resource == "*":
            raise ValueError(
                '`reference` would open a second watch of every resource; name one resource instead of "*"'
            )
        if self.reference and self.representation in ("plain", "protobuf"):
            raise ValueError(
                "`reference` compares whole objects with a small representation; remove `representation` or `reference`"
            )

    @property
    def label(self) -> str:
        """The value of the label `watch` in the metrics."""
        return self.name or self.resource

    @property
    def parts(self) -> tuple["WatchConfig", ...]:
        """The watches that together receive what this one would; itself if it is not divided."""
        if self.divide is None:
            return (self,)
        kind, selectors = self.divide.selectors
        own = getattr(self, kind)
        return tuple(
            self.model_copy(
                update={
                    "name": f"{self.label}/{name}",
                    kind: f"{own},{selector}" if own else selector,
                    "divide": None,
                }
            )
            for name, selector in selectors.items()
        )

    @property
    def may_gain_objects(self) -> bool:
        """Whether an existing object can begin to match the selectors: then ADDED does not mean created."""
        return bool(self.label_selector or (self.field_selector and not _FIXED_FIELDS.fullmatch(self.field_selector)))

    def measures_creation(self, resource: Resource) -> bool:
        """Return True if creation timestamps are requested; `resource` is the one that discovery found."""
        if self.creation is not None:
            return self.creation
        return self.representation != "table" and not self.may_gain_objects and resource.key in _CREATED_OFTEN

    def representation_of(self, resource: Resource) -> Literal["metadata", "table", "plain", "protobuf"]:
        """Return the representation to request: a Table is cheapest; metadata identifies and dates objects."""
        if self.representation == "auto":
            return "metadata" if self.inventory or self.measures_creation(resource) else "table"
        return self.representation


class BurstConfig(_Section):
    """Bursts: while more ticks would decide something, up to `rate` of them are sent a second, for at most two minutes.

    `rate` is of one clock through all apiservers together, by default half of `limits.requestsPerSecond` if that is
    less. All bursts of this instance together send at most `ticks_per_hour` in any hour; 0 turns them off.
    """

    rate: float = Field(default=10.0, ge=2, le=20)
    ticks_per_hour: int = Field(default=3600, ge=0, le=36_000)


class ClockConfig(_Section):
    """How often ticks are sent, and to which namespace if it may be read; `storage` states whether the storage is etcd.

    Without a `namespace`, ticks go to that of the first watch if each watch has one.
    `interval` is the mean time between two ticks of the main clock through one apiserver, by all instances that share
    its ticks; with `metrics: proven`, some ticks are saved and follow events. The clocks of all other storages together
    tick as often as it does: with n of them, each has a tick every n intervals.
    """

    interval: Annotated[Duration, between("200ms", "1m")] = _USUAL_INTERVAL_SECONDS
    namespace: Namespace = "default"
    storage: StorageSetting = "auto"
    burst: BurstConfig = BurstConfig()


def slowest_interval(threshold: float) -> float:
    """Return the greatest mean time between ticks by which quantiles can be judged, in seconds."""
    return max(threshold / _TICKS_IN_THRESHOLD, _USUAL_INTERVAL_SECONDS)


class ShardConfig(_Section):
    """The share of the watches that this instance runs: number `index`, from 0, of `count`."""

    index: Ordinal = Field(default=0, ge=0)
    count: int = Field(default=1, ge=1, le=_MOST_SHARDS)

    @model_validator(mode="after")
    def _check_index(self) -> Self:
        if len(self.model_fields_set) == 1:  # one without the other would leave watches unassigned
            raise ValueError("`index` and `count` need each other; write for example index: ${POD_NAME}, count: 3")
        if self.index >= self.count:
            raise ValueError(
                f"`index` is {self.index} and `count` is {self.count}, but instances are numbered from 0; "
                f"write an index up to {self.count - 1}, or a count of {self.index + 1} for all instances"
            )
        return self

    def has(self, label: str, part: int = 0) -> bool:
        """Return True if this part, from 0, of the watch with this label belongs to this instance.

        All instances agree on the result, in any version. Each share has a hash for the label, and the highest hash
        wins (rendezvous hashing). So an additional instance takes an equal part from each other one, and no other
        watches move. Further parts of a divided watch go to the next shares in turn, so that all have equally many.
        """
        first = max(range(self.count), key=lambda index: _rank(index, label))
        return self.index == (first + part) % self.count


def _rank(index: int, label: str) -> bytes:
    return hashlib.sha256(f"{index}/{label}".encode()).digest()


class GuaranteesConfig(_Section):
    """How the guarantees of watches are verified.

    `stream` looks at each watch alone. `compare` also compares what the same watches at several apiservers delivered;
    of a single apiserver, it reads busy watches again at witnesses now and then. `full` also reads all events of busy
    watches a second time, to compare them with those of the watch.
    """

    level: Literal["stream", "compare", "full"] = "compare"

    @property
    def compares(self) -> bool:
        """Whether the watches of several apiservers are compared."""
        return self.level != "stream"

    @property
    def replays(self) -> bool:
        """Whether all events are read a second time."""
        return self.level == "full"


class LimitsConfig(_Section):
    """Hard caps on the cost of this daemon. With 0 audits per second, stalled watches are not detected.

    With 0 probes per second, apiservers are not asked for their storage either.

    Requests that open a watch again, after it was open, count as `resumesPerSecond`, whatever apiserver they go to; all
    others count as `requestsPerSecond`, for each apiserver.
    """

    requests_per_second: float = Field(default=20.0, gt=0)
    resumes_per_second: float = Field(default=150.0, gt=0)
    audits_per_second: float = Field(default=2.0, ge=0)
    probes_per_second: float = Field(default=5.0, ge=0)
    watches: int = Field(default=500, ge=1)
    max_line: Size = DEFAULT_LIMIT_BYTES


class TlsConfig(_Section):
    """The server's certificate with its chain, and its key, in PEM form."""

    cert_file: Text
    key_file: Text


class ServerLimitsConfig(_Section):
    """Limits for clients of the server: concurrent connections, and bytes of a request head.

    `request_timeout` is how long a request may take to arrive, and its answer to be read.
    """

    connections: int = Field(default=512, ge=8)
    max_header: HeadSize = 16 * 2**10
    request_timeout: Annotated[Duration, between("1s", "5m")] = 10.0
    idle_timeout: Annotated[Duration, between("1s", "1h")] = 90.0


class ServerConfig(_Section):
    """Where metrics and status are served, and which clients are authorized.

    `hosts` are the names by which clients address a server that listens on a loopback address, for example of a reverse
    proxy; other names than `localhost` are refused there. `view` is the URL at which `watchslo view` shows all
    instances; the page links to it.
    Without `page` there are only metrics and probes: no page, no API, no past figures.
    """

    listen: Annotated[Listen, from_text(parse_listen)] = Listen("", 9477)
    page: bool = True
    tls: TlsConfig | None = None
    authorization: Literal["none", "kubernetes"] = "none"
    limits: ServerLimitsConfig = ServerLimitsConfig()
    hosts: tuple[Text, ...] = ()
    view: PageUrl | None = None


class OtlpConfig(_Section):
    """The collector to which the metrics are pushed by OTLP; without `endpoint`, as OpenTelemetry's variables say.

    `headers_file` has a header of each request in each line, for example with a token. `histograms` selects the buckets
    of latencies: the classic ones of `/metrics`, or as many as its native histograms have.
    """

    endpoint: CollectorUrl | None = None
    interval: Annotated[Duration, between("5s", "1h")] = 30.0
    headers_file: Annotated[Text, AfterValidator(os.path.expanduser)] | None = None
    histograms: Literal["explicit", "exponential"] = "explicit"


class LogConfig(_Section):
    """The level and the format of the log."""

    format: Literal["json", "console"] = "json"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(_Section):
    """The whole configuration; every key has a default.

    `quantiles` of rolling windows are exposed; by default, 0.5 and 0.99, and with `metrics: full` also 0.9.
    `reference` names a resource of `watch`: its watches have `reference: true`.
    """

    cluster: Text | None = None
    kubernetes: KubernetesConfig = KubernetesConfig()
    watch: tuple[WatchConfig, ...] = tuple(WatchConfig(resource=resource) for resource in _BUILT_IN)
    exclude: tuple[ResourceName, ...] = ()
    reference: ResourceName | None = None
    shard: ShardConfig = ShardConfig()
    clock: ClockConfig = ClockConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    guarantees: GuaranteesConfig = GuaranteesConfig()
    limits: LimitsConfig = LimitsConfig()
    paused: bool = False
    start_delay: Annotated[Duration, between("1s", "1h")] = 0.0
    metrics: Literal["proven", "basic", "full"] = "basic"
    quantiles: tuple[Share, ...] | None = None
    server: ServerConfig = ServerConfig()
    otlp: OtlpConfig | None = None
    log: LogConfig = LogConfig()

    @field_validator("watch")
    @classmethod
    def _check_names(cls, watches: tuple[WatchConfig, ...]) -> tuple[WatchConfig, ...]:
        if not watches:
            raise ValueError("empty; list what to watch, or remove the key for the default resources")
        labels = ({watch.label, *(part.label for part in watch.parts)} for watch in watches)
        for label, count in Counter(chain.from_iterable(labels)).items():
            if count > 1:
                raise ValueError(f"{count} entries are named {label}; give each its own `name`")
        return watches

    @model_validator(mode="after")
    def _check_sections(self) -> Self:
        if self.exclude and all(watch.resource != "*" for watch in self.watch):
            raise ValueError('`exclude` only applies to `resource: "*"`, which no entry of `watch` has; remove it')
        if not self.limits.probes_per_second and any(watch.hops for watch in self.watch):
            raise ValueError(
                "`hops` needs probes, but `limits.probesPerSecond` is 0; raise that, or remove `hops` from each watch"
            )
        self._check_proven()
        self._check_quantiles()
        self._check_reference()
        self._check_interval()
        self._check_request_rate()
        self._check_burst()
        return self

    def _check_proven(self) -> None:
        """Refuse what `metrics: proven` leaves out."""
        if self.judges_quantiles:
            return
        if any(watch.hops for watch in self.watch):
            raise ValueError("`hops` are not shown with `metrics: proven`; remove one or the other")
        if self.quantiles is not None:
            raise ValueError("`quantiles` are not shown with `metrics: proven`; remove one or the other")
        if self.reference or any(watch.reference for watch in self.watch):
            raise ValueError("`reference` is not shown with `metrics: proven`; remove one or the other")
        if self.kubernetes.apiserver_metrics:
            raise ValueError(
                "`kubernetes.apiserverMetrics` is evidence for causes, which `metrics: proven` leaves out; "
                "remove one or the other"
            )

    def _check_quantiles(self) -> None:
        """Refuse quantiles that are not estimated, and a choice without those that objectives judge."""
        if self.quantiles is None:
            return
        judged = {self.objective.minutes.quantile, *(self.objective_of(watch).quantile for watch in self.watch)}
        for quantile in self.quantiles:
            if quantile not in judged.union(QUANTILES):
                known = ", ".join(f"{q:g}" for q in sorted(judged.union(QUANTILES)))
                raise ValueError(f"`quantiles` has {quantile:g}, which is not estimated; write some of {known}")
        for quantile in sorted(judged.difference(self.quantiles)):
            raise ValueError(
                f"`quantiles` lacks {quantile:g}, by which an objective judges windows: without it and its bounds, no "
                "metric shows how far a bad one was from the threshold; add it"
            )

    def _check_reference(self) -> None:
        """Refuse a resource whose whole objects cannot be compared with a smaller watch of it."""
        if self.reference is None:
            return
        named = [watch for watch in self.watch if watch.resource in ("*", self.reference)]
        if not named:
            raise ValueError(f"`reference` is {self.reference}, which is not watched; add it to `watch`")
        if any(watch.representation in ("plain", "protobuf") for watch in named):
            raise ValueError(
                f"`reference` is {self.reference}, whose watch has whole objects already; name another resource"
            )

    def references(self, watch: WatchConfig, resource: Resource) -> bool:
        """Return True if whole objects of a resource, which `watch` stands for, are watched too."""
        name = resource.key if watch.resource == "*" else watch.resource
        return watch.reference or name == self.reference

    def _check_interval(self) -> None:
        """Refuse slow ticks: if they come every 10 s, 20 ms looks like a P99 above 1 s in most minutes."""
        if not self.judges_quantiles:
            return
        threshold = self.shortest_threshold
        slowest = slowest_interval(threshold)
        if self.clock.interval > slowest:
            raise ValueError(
                f"`clock.interval` of {format_duration(self.clock.interval)} is too slow for quantiles to be judged by "
                f"a threshold of {format_duration(threshold)}; write at most {format_duration(slowest)}, or "
                "metrics: proven, which leaves them out"
            )

    @property
    def _most_ticks(self) -> float:
        """The ticks a second to one apiserver that do not have to wait for other requests."""
        return _TICK_SHARE * self.limits.requests_per_second

    @property
    def clock_in_force(self) -> ClockConfig:
        """The clock with its namespace, and with bursts at the rate that the limits permit.

        There are no bursts if nothing is estimated.
        """
        rate = min(self.clock.burst.rate, self._most_ticks)
        ticks = self.clock.burst.ticks_per_hour if self.judges_quantiles else 0
        burst = self.clock.burst.model_copy(update={"rate": rate, "ticks_per_hour": ticks})
        return self.clock.model_copy(update={"namespace": self.tick_namespaces[0], "burst": burst})

    def _check_burst(self) -> None:
        if "rate" in self.clock.burst.model_fields_set and self.clock.burst.rate > self._most_ticks:
            raise ValueError(
                f"`clock.burst.rate` of {self.clock.burst.rate:g} is more than half of `limits.requestsPerSecond`, "
                f"which is {self.limits.requests_per_second:g}; lower the one or raise the other"
            )

    def _check_request_rate(self) -> None:
        ticks, audits = 1 / self.clock.interval, self.limits.audits_per_second
        too_low = f"`limits.requestsPerSecond` of {self.limits.requests_per_second:g} is too low for {ticks:g} ticks"
        if self.limits.requests_per_second <= ticks:
            raise ValueError(f"{too_low} per second; raise it, or `clock.interval`")
        if self.limits.requests_per_second <= ticks + _REQUESTS_PER_AUDIT * audits:
            raise ValueError(
                f"{too_low} and {audits:g} audits of two requests per second; "
                "raise it, or lower `limits.auditsPerSecond`: 0 turns audits off"
            )

    @property
    def judges_quantiles(self) -> bool:
        """Return True if quantiles are estimated; otherwise requests that only estimates need are not sent."""
        return self.metrics != "proven"

    @property
    def shortest_threshold(self) -> float:
        """The shortest threshold of all watches, in seconds."""
        return min(self.objective_of(watch).threshold for watch in self.watch)

    @property
    def node(self) -> str | None:
        """The node whose pods are watched; None unless a watch selects the pods of one."""
        nodes = {node for watch in self.watch for node in _NODE.findall(watch.field_selector or "")}
        return nodes.pop() if len(nodes) == 1 else None

    @property
    def part(self) -> str | None:
        """What this instance measures if others measure the rest, for readers; None if it measures everything."""
        if self.shard.count > 1:
            return shard_name(self.shard.index, self.shard.count)
        if self.node:
            return f"node {self.node}"
        match self.kubernetes.apiservers:
            case (url,):
                return f"apiserver {urlsplit(url).netloc}"
            case _:
                return None

    @property
    def probes_storage(self) -> bool:
        """Return True if apiservers are asked whether their storage is kine."""
        return self.clock.storage == "auto" and self.limits.probes_per_second > 0

    @property
    def tick_namespaces(self) -> tuple[str, ...]:
        """Where ticks may read, the first that is permitted: `clock.namespace`, then the namespaces of the watches.

        If each watch has a namespace, only a `clock.namespace` that is written precedes these.
        """
        watched = [watch.namespace for watch in self.watch if watch.namespace]
        is_default = "namespace" not in self.clock.model_fields_set
        own = [] if is_default and len(watched) == len(self.watch) else [self.clock.namespace]
        return tuple(dict.fromkeys((*own, *watched)))

    @property
    def wants_witnesses(self) -> bool:
        """Return True if the announced apiservers that are not watched may be ticked on."""
        kubernetes = self.kubernetes
        return kubernetes.witnesses == "auto" and kubernetes.apiservers != "each" and self.judges_quantiles

    def objective_of(self, watch: WatchConfig) -> Objective:
        """Return the objective in force for a watch: the common one with the overrides of the watch."""
        objective = self.objective.overridden_by(watch.objective)
        return Objective(
            threshold=objective.threshold,
            events_target=objective.events.target,
            quantile=objective.minutes.quantile,
            window=objective.minutes.window,
            minutes_target=objective.minutes.target,
            min_events=objective.minutes.min_events,
        )
