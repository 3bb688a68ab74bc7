"""The whole configuration: its sections, with defaults and checks across them."""

import re
from collections import Counter
from itertools import chain
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from watchslo.config.sections.client import ClientConfig
from watchslo.config.sections.clock import ClockConfig, slowest_interval
from watchslo.config.sections.guarantees import GuaranteesConfig
from watchslo.config.sections.kubernetes import KubernetesConfig
from watchslo.config.sections.limits import LimitsConfig
from watchslo.config.sections.log import LogConfig
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.config.sections.otlp import OtlpConfig
from watchslo.config.sections.reactions import ReactionsConfig
from watchslo.config.sections.section import ConfigSection
from watchslo.config.sections.server import ServerConfig
from watchslo.config.sections.shard import ShardConfig
from watchslo.config.sections.watch import WatchConfig
from watchslo.config.values import Duration, ResourceName, Share, Text, between, format_duration
from watchslo.latency.estimate import QUANTILES
from watchslo.latency.objective import Objective
from watchslo.model import Resource, shard_name
from watchslo.reaction.resources import PODS, SLICES, WORKLOADS

_NODE = re.compile(r"(?:^|,)spec\.nodeName==?([^,]+)")
_TICK_SHARE = 0.5  # of the requests to an apiserver, guaranteed to ticks
_MOST_CLIENTS = 50  # each has up to 200 series, and its page is read every 10 s
_REQUESTS_PER_AUDIT = 2  # a consistent list of nothing, and a short watch
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


class Config(ConfigSection):
    """The whole configuration; every key has a default.

    With `mode: cluster`, the instance estimates how late events are. With `mode: node`, it is one of many that tick
    seldom: it exposes only what is proven, and sends no requests that only estimates need. `metrics` is the level of
    detail with `mode: cluster`.
    `quantiles` of rolling windows are exposed; by default, 0.5 and 0.99, and with `metrics: full` also 0.9.
    `reference` names a resource of `watch`: its watches have `reference: true`. `clients` are the programs with
    informers whose caches are timed.
    """

    cluster: Text | None = None
    mode: Literal["cluster", "node"] = "cluster"
    kubernetes: KubernetesConfig = KubernetesConfig()
    watch: tuple[WatchConfig, ...] = tuple(WatchConfig(resource=resource) for resource in _BUILT_IN)
    exclude: tuple[ResourceName, ...] = ()
    reference: ResourceName | None = None
    reactions: ReactionsConfig = ReactionsConfig()
    clients: tuple[ClientConfig, ...] = Field(default=(), max_length=_MOST_CLIENTS)
    shard: ShardConfig = ShardConfig()
    clock: ClockConfig = ClockConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    guarantees: GuaranteesConfig = GuaranteesConfig()
    limits: LimitsConfig = LimitsConfig()
    paused: bool = False
    start_delay: Annotated[Duration, between("1s", "1h")] = 0.0
    metrics: Literal["basic", "full"] = "basic"
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

    @field_validator("clients")
    @classmethod
    def _check_clients(cls, clients: tuple[ClientConfig, ...]) -> tuple[ClientConfig, ...]:
        for name, count in Counter(client.name for client in clients).items():
            if count > 1:
                raise ValueError(f"{count} entries are named {name}; give each its own `name`")
        return clients

    @model_validator(mode="after")
    def _check_sections(self) -> Self:
        if self.exclude and all(watch.resource != "*" for watch in self.watch):
            raise ValueError('`exclude` only applies to `resource: "*"`, which no entry of `watch` has; remove it')
        if not self.limits.probes_per_second and any(watch.hops for watch in self.watch):
            raise ValueError(
                "`hops` needs probes, but `limits.probesPerSecond` is 0; raise that, or remove `hops` from each watch"
            )
        self._check_node()
        self._check_quantiles()
        self._check_reference()
        self._check_reactions()
        self._check_interval()
        self._check_request_rate()
        self._check_burst()
        return self

    def _check_node(self) -> None:
        """Refuse what `mode: node` leaves out."""
        if self.mode == "cluster":
            return
        if "metrics" in self.model_fields_set:
            raise ValueError("`metrics` has no levels with `mode: node`; remove one or the other")
        if any(watch.hops for watch in self.watch):
            raise ValueError("`hops` are not shown with `mode: node`; remove one or the other")
        if self.quantiles is not None:
            raise ValueError("`quantiles` are not shown with `mode: node`; remove one or the other")
        if self.reference or any(watch.reference for watch in self.watch):
            raise ValueError("`reference` is not shown with `mode: node`; remove one or the other")
        if "reactions" in self.model_fields_set and self.reactions.resources != "none":
            raise ValueError("`reactions` are not shown with `mode: node`; remove one or the other")
        if self.clients:
            raise ValueError("`clients` are not shown with `mode: node`; remove one or the other")
        if self.kubernetes.apiserver_metrics:
            raise ValueError(
                "`kubernetes.apiserverMetrics` is evidence for causes, which `mode: node` leaves out; "
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

    def has_reference_watch(self, watch: WatchConfig, resource: Resource) -> bool:
        """Return True if whole objects of a resource, which `watch` stands for, are watched too."""
        name = resource.key if watch.resource == "*" else watch.resource
        return watch.reference or name == self.reference

    def _check_reactions(self) -> None:
        """Refuse to time the controllers of resources that are not watched."""
        named = self.reactions.resources
        if isinstance(named, str) or any(watch.resource == "*" for watch in self.watch):
            return
        watched = {watch.resource for watch in self.watch}
        for name in named:
            if name not in watched:
                raise ValueError(f"`reactions` names {name}, which is not watched; add it to `watch`")

    def wants_reactions(self, resource: Resource) -> bool:
        """Return True if the reactions of the controllers of a resource are timed."""
        named = self.reactions.resources
        if self.mode == "node" or named == "none":
            return False
        if named != "auto":
            return resource.key in named
        of_pods = self.reference == PODS and resource.key in (PODS, SLICES)
        return of_pods or resource.custom or resource.key in WORKLOADS

    def _check_interval(self) -> None:
        """Refuse slow ticks: if they come every 10 s, 20 ms looks like a P99 above 1 s in most minutes."""
        if self.mode == "node":
            return
        threshold = self.shortest_threshold
        slowest = slowest_interval(threshold)
        if self.clock.interval > slowest:
            raise ValueError(
                f"`clock.interval` of {format_duration(self.clock.interval)} is too slow for quantiles to be judged by "
                f"a threshold of {format_duration(threshold)}; write at most {format_duration(slowest)}, or "
                "mode: node, which leaves them out"
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
        ticks = self.clock.burst.ticks_per_hour if self.mode == "cluster" else 0
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
    def detail(self) -> Literal["node", "basic", "full"]:
        """Which metrics are exposed: those of `mode: node`, or those at the level `metrics`."""
        return "node" if self.mode == "node" else self.metrics

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
        return kubernetes.witnesses == "auto" and kubernetes.apiservers != "each" and self.mode == "cluster"

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
