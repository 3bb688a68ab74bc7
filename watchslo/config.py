"""The configuration: one YAML file with camelCase keys, or nothing at all.

Whatever is wrong with it becomes one sentence with file, line, key and remedy. Durations are seconds once loaded.
"""

import difflib
import hashlib
import ipaddress
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, get_args
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from watchslo.errors import ConfigError
from watchslo.latency.objective import Objective
from watchslo.model import Resource
from watchslo.watch.strategy import PAGE_SIZE

# --- values ----------------------------------------------------------------------------------------------------------

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_UNIT_BYTES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d+)(Ki|Mi|Gi|)B?")
_RESOURCE = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)*")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_SMALLEST_LINE, _LARGEST_LINE = 2**20, 2**30  # bytes; a single object may be 1.5 MiB large
_SMALLEST_HEAD, _LARGEST_HEAD = 2**12, 2**20  # bytes; a browser with a long token needs a few thousand
_MAX_PORT = 65535
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PERCENT = 100.0
_FEWEST_PERCENT = 50.0  # 1.5 is no share of 1.5%, but a slip
_MOST_SHARDS = 1_000  # each watch is offered to all of them
_LARGEST_PAGE = 10_000  # objects; more of them at once only burden the apiserver's memory
_REQUESTS_PER_AUDIT = 2  # a consistent list of nothing, and a short watch
_ORDINAL = re.compile(r"(?:.+-)?(\d{1,9})")
_USUAL_INTERVAL_SECONDS = 0.5  # of ticks
_TICKS_IN_THRESHOLD = 2  # at least, or no quantile can be judged
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def parse_duration(text: str) -> float:
    """Seconds of `500ms`, `1s`, `1m30s`, `30d`; ValueError says what to write instead."""
    if _NUMBER.fullmatch(text):
        raise ValueError(f"{text} has no unit; write for example {text}s")
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text} is no duration; write for example 500ms, 1s, 5m or 30d")
    seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    if seconds == 0:
        raise ValueError(f"{text} is no time at all; write a positive duration, for example 1s")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest way to write a duration in one unit: `500ms`, `1s`, `30d`."""
    unit = next((unit for unit in ("d", "h", "m", "s") if seconds % _UNIT_SECONDS[unit] == 0), "ms")
    return f"{seconds / _UNIT_SECONDS[unit]:g}{unit}"


def _size(text: str, smallest: int = _SMALLEST_LINE, largest: int = _LARGEST_LINE) -> int:
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"{text} is no size; write for example {_format_size(largest >> 4)}")
    size = int(match[1]) * _UNIT_BYTES[match[2]]
    if not smallest <= size <= largest:
        raise ValueError(f"{text} is out of range; write {_format_size(smallest)} to {_format_size(largest)}")
    return size


def _head_size(text: str) -> int:
    return _size(text, _SMALLEST_HEAD, _LARGEST_HEAD)


def _format_size(size: int) -> str:
    unit = max((unit for unit in _UNIT_BYTES if size % _UNIT_BYTES[unit] == 0), key=_UNIT_BYTES.__getitem__)
    return f"{size // _UNIT_BYTES[unit]}{unit}"


class Listen(NamedTuple):
    """Where to serve: an empty host means every address, port 0 a free one."""

    host: str
    port: int


def parse_listen(text: str) -> Listen:
    """The parts of `0.0.0.0:9477`, `[::1]:9477` or `:0`; ValueError says what to write instead."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _MAX_PORT or (":" in host) != host.startswith("["):
        raise ValueError(f"{text} is no address to listen on; write host:port, for example 0.0.0.0:9477")
    return Listen(host.removeprefix("[").removesuffix("]"), int(port))


def _share(text: str) -> float:
    number = text.removesuffix("%")
    if not _NUMBER.fullmatch(number):
        raise ValueError(f"{text} is no share; write a number below 1, for example 0.999")
    share = float(number)
    if text != number or _FEWEST_PERCENT <= share < _PERCENT:
        raise ValueError(f"{text} is a percentage; write {share / _PERCENT:.10g}")
    if share == 1:
        raise ValueError(f"{text} leaves no error budget; write a share below 1, for example 0.999")
    if not 0 < share < 1:
        raise ValueError(f"{text} is no share; write a number between 0 and 1, for example 0.999")
    return share


def _ordinal(text: str) -> int:
    """The number at the end of a name, as a StatefulSet's pods have one, or of nothing but a number."""
    match = _ORDINAL.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text} has no number at its end; write a number from 0, or the name of a StatefulSet's pod: ${{POD_NAME}}"
        )
    return int(match[1])


def _resource(value: str) -> str:
    if not _RESOURCE.fullmatch(value):
        near = value.lower()
        hint = f"did you mean {near}?" if _RESOURCE.fullmatch(near) else "write for example pods or deployments.apps"
        raise ValueError(f"{value} is no resource: their names are lower-case plurals; {hint}")
    return value


def _watchable(value: str) -> str:
    return value if value == "*" else _resource(value)


def _namespace(value: str) -> str:
    if not _NAMESPACE.fullmatch(value):
        raise ValueError(f"{value} is no namespace; leave the key out to mean all of them")
    return value


def _apiservers(value: object) -> object:
    """Refuses what is neither a word nor a list: of two forms, the model would tell a mistake twice."""
    match value:
        case "service" | "each":
            return value
        case list():
            return _urls(value)
        case _:
            raise ValueError(f"{_shown(value)} is not possible; write service, each, or a list of URLs")


def _urls(values: list[object]) -> list[str]:
    if not values:
        raise ValueError("empty; list URLs, or write service or each")
    urls = [_apiserver_url(value) for value in values]
    for url, count in Counter(urls).items():
        if count > 1:
            raise ValueError(f"{url} stands there {count} times; keep one of them")
    return urls


def _apiserver_url(value: object) -> str:
    """Scheme, host and port of a URL and nothing else: one way to write one address."""
    if not isinstance(value, str):
        shown = "nothing" if value is None else _shown(value)
        raise ValueError(f"{shown} is no URL; write for example https://10.0.0.7:6443")  # noqa: TRY004 - pydantic's own
    try:
        parts = urlsplit(value)
        port = _DEFAULT_PORTS.get(parts.scheme) if parts.port is None else parts.port
    except ValueError:
        raise ValueError(f"{value} has an impossible host or port; write for example https://10.0.0.7:6443") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not port:
        raise ValueError(f"{value} is no URL of an apiserver; write for example https://10.0.0.7:6443")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = f"{parts.scheme}://{host}:{port}"
    if parts.username is not None:
        raise ValueError(f"{url} is named with a user; remove that, and let a kubeconfig say who we are")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"{value} holds more than an address; write {url}")
    return url


@dataclass(frozen=True, slots=True)
class Between:
    """Lets no other durations pass than from the shortest to the longest."""

    shortest: str
    longest: str

    def __call__(self, seconds: float) -> float:
        if not parse_duration(self.shortest) <= seconds <= parse_duration(self.longest):
            raise ValueError(f"{format_duration(seconds)} is out of range; write {self.shortest} to {self.longest}")
        return seconds


@dataclass(frozen=True, slots=True)
class FromText:
    """Parses what the file says; `parse` need not care for mappings and lists in the wrong place."""

    parse: Callable[[str], object]

    def __call__(self, value: object) -> object:
        return self.parse(value) if isinstance(value, str) else value


def _between(shortest: str, longest: str) -> AfterValidator:
    return AfterValidator(Between(shortest, longest))


def _from_text(parse: Callable[[str], object]) -> BeforeValidator:
    return BeforeValidator(FromText(parse))


Duration = Annotated[float, _from_text(parse_duration)]
Size = Annotated[int, _from_text(_size)]
HeadSize = Annotated[int, _from_text(_head_size)]
Share = Annotated[float, _from_text(_share)]
Ordinal = Annotated[int, _from_text(_ordinal)]
ResourceName = Annotated[str, AfterValidator(_resource)]
WatchableName = Annotated[str, AfterValidator(_watchable)]
Namespace = Annotated[str, AfterValidator(_namespace)]
Text = Annotated[str, Field(min_length=1)]
Keys = tuple[int | str, ...]

# --- the model -------------------------------------------------------------------------------------------------------

_BUILT_IN = (
    # Every cluster has these. Leases beat, so there are always samples; never secrets unless somebody names them.
    "pods",
    "nodes",
    "namespaces",
    "services",
    "endpointslices.discovery.k8s.io",
    "configmaps",
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


_SectionT = TypeVar("_SectionT", bound=_Section)


class KubernetesConfig(_Section):
    """Which cluster: nothing is needed inside one, or where there is a kubeconfig.

    `apiservers` are those whose watches are measured: whichever answers for the service, each one behind it, or those
    at these URLs, which have a port and no slash at their end. `tls_server_name` is what the certificates of the latter
    two must name.
    """

    kubeconfig: Annotated[Text, AfterValidator(os.path.expanduser)] | None = None
    context: Text | None = None
    apiservers: Annotated[Literal["service", "each"] | tuple[str, ...], BeforeValidator(_apiservers)] = "service"
    tls_server_name: Text | None = None

    @model_validator(mode="after")
    def _names_what_it_asks(self) -> Self:
        if self.tls_server_name and self.apiservers == "service":
            raise ValueError(
                "`tlsServerName` is for the addresses of single apiservers; write apiservers: each, or remove it: "
                "a kubeconfig names the service's as tls-server-name"
            )
        return self


class EventsObjective(_Section):
    """The share of events within the threshold over a period: what burn rates are about."""

    target: Share = 0.99
    period: Annotated[Duration, _between("1h", "366d")] = 30 * 86400.0


class MinutesObjective(_Section):
    """The share of windows whose quantile is within the threshold; those with fewer events are not judged."""

    quantile: Share = 0.99
    window: Annotated[Duration, _between("10s", "10m")] = 60.0
    target: Share = 0.999
    min_events: int = Field(default=100, ge=1)


class ObjectiveConfig(_Section):
    """How late events may be. A watch may override any part of the common one."""

    threshold: Annotated[Duration, _between("1ms", "60s")] = 1.0
    events: EventsObjective = EventsObjective()
    minutes: MinutesObjective = MinutesObjective()

    def overridden_by(self, other: "ObjectiveConfig") -> "ObjectiveConfig":
        """This objective, but for what the other one says explicitly."""
        return self.model_copy(
            update={
                **other.model_dump(include={"threshold"}, exclude_unset=True),
                "events": self.events.model_copy(update=other.events.model_dump(exclude_unset=True)),
                "minutes": self.minutes.model_copy(update=other.minutes.model_dump(exclude_unset=True)),
            }
        )


class WatchConfig(_Section):
    """One watch, or with the resource `"*"` one of everything this identity may list and watch.

    `page_size` is in objects; `inventory` remembers each one's revision, to tell what a gap hid; `hops` are measured
    even where it is not late.
    """

    resource: WatchableName
    name: Text | None = None
    namespace: Namespace | None = None
    field_selector: Text | None = None
    label_selector: Text | None = None
    strategy: Literal["tail", "paged", "parallel", "stream", "cache"] = Field(default="tail", alias="list")
    page_size: int = Field(default=PAGE_SIZE, ge=1, le=_LARGEST_PAGE)
    inventory: bool = False
    representation: Literal["auto", "metadata", "table"] = "auto"
    creation: bool | None = None
    hops: bool = False
    objective: ObjectiveConfig = ObjectiveConfig()

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.resource == "*" and self.name:
            raise ValueError('`name` would be given to many watches; remove it, or name one resource instead of "*"')
        self._can_list()
        self._carries_metadata()
        return self

    def _can_list(self) -> None:
        if self.strategy != "tail":
            return
        if self.inventory:
            raise ValueError(
                "`inventory` needs a list of the objects, which `list: tail` never asks for; write list: paged"
            )
        if "page_size" in self.model_fields_set:
            raise ValueError("`pageSize` needs a list in pages, which `list: tail` never asks for; write list: paged")

    def _carries_metadata(self) -> None:
        if self.creation and self.has_selector:
            raise ValueError(
                "`creation` needs a watch without selectors, where ADDED means created; remove one or the other"
            )
        if self.creation and self.representation == "table":
            raise ValueError("`creation` needs metadata, a Table carries no timestamps; write representation: metadata")
        if self.inventory and self.representation == "table":
            raise ValueError(
                "`inventory` needs metadata, a Table does not identify objects; write representation: metadata"
            )

    @property
    def label(self) -> str:
        """The value of the label `watch` in the metrics."""
        return self.name or self.resource

    @property
    def has_selector(self) -> bool:
        return bool(self.field_selector or self.label_selector)

    def measures_creation(self, resource: Resource) -> bool:
        """Whether creation timestamps are asked for; `resource` is what discovery made of this watch's."""
        if self.creation is not None:
            return self.creation
        return self.representation != "table" and not self.has_selector and resource.key in _CREATED_OFTEN

    def representation_of(self, resource: Resource) -> Literal["metadata", "table"]:
        """What to ask the apiserver for: the Table is the cheapest, metadata identifies objects and dates them."""
        if self.representation == "auto":
            return "metadata" if self.inventory or self.measures_creation(resource) else "table"
        return self.representation


class ClockConfig(_Section):
    """How often and where the ticks read nothing; `storage` settles whether it is etcd where that cannot be seen."""

    interval: Annotated[Duration, _between("200ms", "1m")] = _USUAL_INTERVAL_SECONDS
    namespace: Namespace = "default"
    storage: Literal["auto", "etcd", "unproven"] = "auto"


class ShardConfig(_Section):
    """Which share of the watches is run here: the one of number `index`, from 0, where there are `count`."""

    index: Ordinal = Field(default=0, ge=0)
    count: int = Field(default=1, ge=1, le=_MOST_SHARDS)

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if len(self.model_fields_set) == 1:  # alone, each of them would let somebody's watches be nobody's
            raise ValueError("`index` and `count` need each other; write for example index: ${POD_NAME}, count: 3")
        if self.index >= self.count:
            raise ValueError(
                f"`index` is {self.index} and `count` {self.count}, and they are numbered from 0; "
                f"write an index up to {self.count - 1}, or a count of {self.index + 1} for all instances"
            )
        return self

    def has(self, label: str) -> bool:
        """Whether a watch is ours, by its label: whoever shares the watches comes to the same answer, in any version.

        Every share bids for it, and the highest bid wins: where there is one more, it takes from each of the others
        what it wins, and nothing else moves.
        """
        return self.index == max(range(self.count), key=lambda index: _bid(index, label))


def _bid(index: int, label: str) -> bytes:
    return hashlib.sha256(f"{index}/{label}".encode()).digest()


class LimitsConfig(_Section):
    """Hard caps on what this daemon costs; without audits, at 0 a second, no stalled watch is found.

    Probes need no room of their own among the requests: they go when nothing else does.
    """

    requests_per_second: float = Field(default=10.0, gt=0)
    audits_per_second: float = Field(default=2.0, ge=0)
    probes_per_second: float = Field(default=5.0, ge=0)
    watches: int = Field(default=500, ge=1)
    max_line: Size = 64 * 2**20


class TlsConfig(_Section):
    """The server's certificate, with its chain, and the key to it, in PEM form."""

    cert_file: Text
    key_file: Text


class ServerLimitsConfig(_Section):
    """What those who read may take: so many connections at once, and bytes before a request is understood.

    `request_timeout` is how long a request may take to arrive, and its answer to be taken.
    """

    connections: int = Field(default=512, ge=8)
    max_header: HeadSize = 16 * 2**10
    request_timeout: Annotated[Duration, _between("1s", "5m")] = 10.0
    idle_timeout: Annotated[Duration, _between("1s", "1h")] = 90.0


class ServerConfig(_Section):
    """Where metrics and status are served, and to whom."""

    listen: Annotated[Listen, _from_text(parse_listen)] = Listen("", 9477)
    tls: TlsConfig | None = None
    authorization: Literal["none", "kubernetes"] = "none"
    limits: ServerLimitsConfig = ServerLimitsConfig()


class LogConfig(_Section):
    """How much is said, and in which form."""

    format: Literal["json", "console"] = "json"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(_Section):
    """Everything a user may decide; all of it has a default."""

    cluster: Text | None = None
    kubernetes: KubernetesConfig = KubernetesConfig()
    watch: tuple[WatchConfig, ...] = tuple(WatchConfig(resource=resource) for resource in _BUILT_IN)
    exclude: tuple[ResourceName, ...] = ()
    shard: ShardConfig = ShardConfig()
    clock: ClockConfig = ClockConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    limits: LimitsConfig = LimitsConfig()
    paused: bool = False
    start_delay: Annotated[Duration, _between("1s", "1h")] = 0.0
    metrics: Literal["proven", "basic", "full"] = "basic"
    server: ServerConfig = ServerConfig()
    log: LogConfig = LogConfig()

    @field_validator("watch")
    @classmethod
    def _names_differ(cls, watches: tuple[WatchConfig, ...]) -> tuple[WatchConfig, ...]:
        if not watches:
            raise ValueError("empty; list what to watch, or remove the key for the default resources")
        for label, count in Counter(watch.label for watch in watches).items():
            if count > 1:
                raise ValueError(f"{count} entries are named {label}; give each its own `name`")
        return watches

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.exclude and all(watch.resource != "*" for watch in self.watch):
            raise ValueError('`exclude` only takes away from `resource: "*"`, and nothing watches that; remove it')
        if not self.limits.probes_per_second and any(watch.hops for watch in self.watch):
            raise ValueError(
                "`hops` needs probes, and `limits.probesPerSecond` is 0; raise that, or remove `hops` from each watch"
            )
        if not self.judges_quantiles and any(watch.hops for watch in self.watch):
            raise ValueError("`hops` are not shown with `metrics: proven`; remove one or the other")
        self._can_judge()
        self._leaves_room()
        return self

    def _can_judge(self) -> None:
        """A healthy 20 ms, dated by ticks every 10 s, would seem to have a P99 over a second in most minutes."""
        if not self.judges_quantiles:
            return
        threshold = min(self.objective_of(watch).threshold for watch in self.watch)
        slowest = max(threshold / _TICKS_IN_THRESHOLD, _USUAL_INTERVAL_SECONDS)
        if self.clock.interval > slowest:
            raise ValueError(
                f"`clock.interval` of {format_duration(self.clock.interval)} is too slow for quantiles to be judged by "
                f"a threshold of {format_duration(threshold)}; write at most {format_duration(slowest)}, or "
                "metrics: proven, which leaves them out"
            )

    def _leaves_room(self) -> None:
        ticks, audits = 1 / self.clock.interval, self.limits.audits_per_second
        beside = (
            f"`limits.requestsPerSecond` of {self.limits.requests_per_second:g} leaves no room beside {ticks:g} ticks"
        )
        if self.limits.requests_per_second <= ticks:
            raise ValueError(f"{beside} a second; raise it, or `clock.interval`")
        if self.limits.requests_per_second <= ticks + _REQUESTS_PER_AUDIT * audits:
            raise ValueError(
                f"{beside} and {audits:g} audits of two requests a second; "
                "raise it, or lower `limits.auditsPerSecond`: 0 turns audits off"
            )

    @property
    def judges_quantiles(self) -> bool:
        """Whether anything may be estimated; if not, nothing is asked of apiservers that only estimates need."""
        return self.metrics != "proven"

    def narrowed(self, resources: Iterable[str], threshold: str | None) -> "Config":
        """This configuration for these resources only, if there are any, all held to one threshold, if it is given.

        Raises ConfigError, naming the option of the command line.
        """
        watches = tuple(_told("--resource", WatchConfig, resource=name) for name in dict.fromkeys(resources))
        config = self.model_copy(update={"watch": watches}) if watches else self
        if threshold is None:
            return config
        told = _told("--threshold", ObjectiveConfig, threshold=threshold)
        update: dict[str, object] = {"objective": config.objective.overridden_by(told)}
        if "watch" in config.model_fields_set:
            update["watch"] = tuple(
                watch.model_copy(update={"objective": watch.objective.overridden_by(told)}) for watch in config.watch
            )
        return config.model_copy(update=update)

    def objective_of(self, watch: WatchConfig) -> Objective:
        """The objective in force for a watch: the common one, but for what the watch overrides."""
        said = self.objective.overridden_by(watch.objective)
        return Objective(
            threshold=said.threshold,
            events_target=said.events.target,
            quantile=said.minutes.quantile,
            window=said.minutes.window,
            minutes_target=said.minutes.target,
            min_events=said.minutes.min_events,
        )


# --- loading ---------------------------------------------------------------------------------------------------------

_RESOLVED = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}
_CONSTRUCTED = {
    "tag:yaml.org,2002:null",
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:seq",
    "tag:yaml.org,2002:map",
    None,
}


def load(path: Path | None, environ: Mapping[str, str] = os.environ) -> tuple[Config, str]:
    """The configuration in a file and the hash of the file's content; without a file the defaults and an empty hash.

    Raises ConfigError.
    """
    if path is None:
        return Config(), ""
    content = _content(path)
    try:
        document = _Document(path, content)
        return document.config(environ), _hashed(content)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply; write it as the documentation shows") from None


def hash_of(path: Path) -> str:
    """The hash of what a file holds now, which costs a hundredth of loading it; raises ConfigError."""
    return _hashed(_content(path))


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; name one that exists, or none at all for the defaults") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; name the file in it") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{path}: {reason}; make it readable for the user that runs watchslo") from None


class _Loader(yaml.SafeLoader):
    """Leaves scalars but null as they are written: the model knows what each should be, and `on` stays a key."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - declared so by PyYAML
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _RESOLVED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012 - the same; without those of explicit tags such as !!int, which may raise anything
        tag: construct for tag, construct in yaml.SafeLoader.yaml_constructors.items() if tag in _CONSTRUCTED
    }


class _Document:
    """A YAML file that remembers where each key stands."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        try:
            loader = _Loader(content)
            self._root = loader.get_single_node()
            self._data = None if self._root is None else loader.construct_document(self._root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = f":{mark.line + 1}" if mark else ""
            problem = ", ".join(filter(None, (error.context, error.problem)))
            raise ConfigError(f"{path}{line}: not YAML: {problem}; check indentation and quotes") from None
        except yaml.reader.ReaderError:
            raise ConfigError(f"{path}: not YAML: it is not even text; save it as UTF-8") from None

    def config(self, environ: Mapping[str, str]) -> Config:
        if self._data is None:
            raise ConfigError(f"{self._path}: empty; write at least one key, or name no file at all for the defaults")
        if not isinstance(self._data, dict):
            raise ConfigError(f"{self._path}: {_shown(self._data)} is no mapping; write keys, such as paused: false")
        for keys in _duplicates(self._root):
            raise self._error(keys, "written twice; keep one of them")
        try:
            return Config.model_validate(self._substituted(self._data, (), environ))
        except ValidationError as error:
            # A misspelt key is unknown, and what it should be is missing: to say the former helps more.
            first = min(error.errors(), key=lambda details: (self._line(details["loc"]), details["type"] == "missing"))
            raise self._error(first["loc"], _sentence(first)) from None

    def _substituted(self, value: Any, keys: Keys, environ: Mapping[str, str]) -> Any:
        match value:
            case dict():
                return {key: self._substituted(item, (*keys, key), environ) for key, item in value.items()}
            case list():
                return [self._substituted(item, (*keys, place), environ) for place, item in enumerate(value)]
            case str():
                for name in _VARIABLE.findall(value):
                    if not environ.get(name):
                        # An empty one is refused too: `spec.nodeName=` would silently mean all unscheduled pods.
                        raise self._error(keys, f"${{{name}}} is not in the environment; set {name}, or write a value")
                return _VARIABLE.sub(lambda match: _inserted(match, environ[match[1]]), value)
            case _:
                return value

    def _error(self, keys: Keys, message: str) -> ConfigError:
        if not keys:
            return ConfigError(f"{self._path}: {message}")
        return ConfigError(f"{self._path}:{self._line(keys)}: {_dotted(keys)}: {message}")

    def _line(self, keys: Keys) -> int:
        """The line of the innermost of these keys that is written down."""
        node, line = self._root, 0
        for key in keys:
            found: tuple[yaml.Node, yaml.Node] | None = None
            match node:
                case yaml.MappingNode(value=pairs):
                    found = next(((name, item) for name, item in pairs if name.value == str(key)), None)
                case yaml.SequenceNode(value=items) if isinstance(key, int):
                    found = items[key], items[key]
            if found is None:
                break
            place, node = found
            line = place.start_mark.line
        return line + 1


def _inserted(place: re.Match[str], value: str) -> str:
    """A variable's value as it must stand there: in a URL, addresses of IPv6 have brackets."""
    if not place.string.endswith("//", 0, place.start()):
        return value
    try:
        return f"[{ipaddress.IPv6Address(value)}]"
    except ValueError:
        return value


_EXAMPLES = {  # of the keys without a default
    "resource": "resource: pods",
    "certFile": "certFile: /tls/tls.crt",
    "keyFile": "keyFile: /tls/tls.key",
    "index": "index: ${POD_NAME}",
    "count": "count: 3",
}
_SENTENCES = {  # by pydantic's type of error
    "value_error": "{error}",
    "no_value": "has no value; write one, or remove the key",
    "missing": "missing; write for example {example}",
    "literal_error": "{shown} is not possible; write {expected}",
    "float_parsing": "{shown} is no number; write for example 10",
    "int_parsing": "{shown} is no number; write for example 100",
    "greater_than": "{shown} is too small; write more than {gt:g}",
    "greater_than_equal": "{shown} is too small; write at least {ge:g}",
    "less_than_equal": "{shown} is too large; write at most {le:g}",
    "model_type": "{shown} is no mapping; write its keys below it, indented",
    "tuple_type": "{shown} is no list; begin each entry with `- `",
    "string_type": "{shown} stands where one value should; write just that",
    "string_too_short": "empty; write a value, or remove the key",
    "bool_parsing": "{shown} is not possible; write true or false",
}


def _duplicates(node: yaml.Node | None, keys: Keys = ()) -> Iterator[Keys]:
    """The paths of keys that stand twice in one mapping, which YAML forbids and its parser lets pass."""
    match node:
        case yaml.MappingNode(value=pairs):
            names = Counter(name.value for name, _ in pairs if isinstance(name, yaml.ScalarNode))
            yield from ((*keys, name) for name, count in names.items() if count > 1)
            children = [(name.value, item) for name, item in pairs]
        case yaml.SequenceNode(value=items):
            children = list(enumerate(items))
        case _:
            children = []
    for key, child in children:
        yield from _duplicates(child, (*keys, key))


def _told(option: str, section: type[_SectionT], **values: str) -> _SectionT:
    """A section made from what an option of the command line says; raises ConfigError."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{option}: {_sentence(error.errors()[0])}") from None


def _dotted(keys: Keys) -> str:
    """How people write a path of keys: `watch[1].fieldSelector`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def _shown(value: object) -> str:
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return str(value)


def _sentence(details: ErrorDetails) -> str:
    """What is wrong, and the remedy, for one of pydantic's errors."""
    if details["type"] in ("extra_forbidden", "invalid_key"):
        return f"unknown key; {_nearest(details['loc'])}"
    kind = "no_value" if details["input"] is None else details["type"]
    context = {
        "reason": details["msg"].lower().removeprefix("input "),
        "example": _EXAMPLES.get(str(details["loc"][-1]) if details["loc"] else ""),
        **details.get("ctx", {}),
    }
    return _SENTENCES.get(kind, "{shown} is not possible: it {reason}").format(
        shown=_shown(details["input"]), **context
    )


def _nearest(keys: Keys) -> str:
    """The remedy for an unknown key: the known one it resembles, or all that are known beside it."""
    section: type[BaseModel] = Config
    for key in keys[:-1]:
        section = section if isinstance(key, int) else _section_of(section, str(key))
    known = [field.alias or name for name, field in section.model_fields.items()]
    near = difflib.get_close_matches(str(keys[-1]).lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"


def _section_of(parent: type[BaseModel], key: str) -> type[BaseModel]:
    annotation = next(field.annotation for name, field in parent.model_fields.items() if key in (name, field.alias))
    candidates = (annotation, *get_args(annotation))
    return next(kind for kind in candidates if isinstance(kind, type) and issubclass(kind, BaseModel))
