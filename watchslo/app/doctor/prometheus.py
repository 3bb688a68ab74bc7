"""Asks a Prometheus, and checks whether it scrapes watchslo and can send alerts."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Generic, TypeVar

import msgspec

from watchslo.app.doctor.findings import DeploymentFinding, good, problem, unchecked, warning
from watchslo.app.http_endpoint import HttpEndpoint
from watchslo.errors import UNDECODABLE, ConnectError
from watchslo.timeline.format import counted, some_of

SCRAPED, ALERTS = "scrapes", "alerts"
RECENT_SECONDS = 3600.0  # a series without samples for so long counts as absent
_REFUSALS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "it requires a valid token; pass one with --prometheus-token-file",
    HTTPStatus.FORBIDDEN: "this identity may not read it; pass another token with --prometheus-token-file",
    HTTPStatus.NOT_FOUND: "it does not serve this part of the API of Prometheus; check the URL and its path",
}
_T = TypeVar("_T")


class Sample(msgspec.Struct):
    """One element of an instant vector."""

    metric: dict[str, str]
    value: tuple[float, str]

    @property
    def number(self) -> float:
        return float(self.value[1])


class _Vector(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[Sample]


class ScrapeTarget(msgspec.Struct, rename="camel"):
    """A target: the error of its last scrape is empty if it succeeded."""

    labels: dict[str, str]
    last_error: str = ""


class _Targets(msgspec.Struct, rename="camel"):
    active_targets: list[ScrapeTarget]


class LoadedRule(msgspec.Struct):
    """A rule that Prometheus evaluates; `duration` is the `for` of an alert in seconds."""

    name: str
    query: str
    duration: float = 0.0
    labels: dict[str, str] | None = None
    health: str = "ok"


class LoadedGroup(msgspec.Struct):
    """A group of rules that Prometheus evaluates."""

    name: str
    rules: list[LoadedRule]


class _LoadedGroups(msgspec.Struct):
    groups: list[LoadedGroup]


class _Alertmanagers(msgspec.Struct, rename="camel"):
    active_alertmanagers: list[dict[str, str]]


class Prometheus:
    """The HTTP API of a Prometheus; each method raises ConnectError with the reason if there is no usable answer."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint

    async def query(self, expression: str) -> list[Sample]:
        """Return the vector of an instant query."""
        return (await self._get("/api/v1/query", _Vector, query=expression)).result

    async def targets(self) -> list[ScrapeTarget]:
        return (await self._get("/api/v1/targets", _Targets, state="active")).active_targets

    async def rule_groups(self) -> list[LoadedGroup]:
        return (await self._get("/api/v1/rules", _LoadedGroups)).groups

    async def alertmanagers(self) -> int:
        """Return how many Alertmanagers it sends alerts to."""
        return len((await self._get("/api/v1/alertmanagers", _Alertmanagers)).active_alertmanagers)

    async def formatted(self, expression: str) -> str:
        """Return the expression in the form that Prometheus gives to equal expressions."""
        return await self._get("/api/v1/format_query", str, query=expression)

    async def present(self, metrics: Iterable[str]) -> set[str]:
        """Return those of the metrics that have had samples recently."""
        names = "|".join(sorted(metrics))
        recent = {"start": f"{time.time() - RECENT_SECONDS:.0f}", "match[]": f'{{__name__=~"{names}"}}'}
        return {*await self._get("/api/v1/label/__name__/values", list[str], **recent)}

    async def _get(self, path: str, form: type[_T], **query: str) -> _T:
        status, body = await self._endpoint.get(path, query)
        if status != HTTPStatus.OK:
            raise ConnectError(_REFUSALS.get(status, f"it answers {status}"))
        try:
            return msgspec.json.decode(body, type=_answer(form)).data
        except UNDECODABLE:
            raise ConnectError("the answer is not one of a Prometheus; check the URL") from None


def _answer(form: type[_T]) -> type["_PrometheusAnswer[_T]"]:
    return _PrometheusAnswer[form]  # type: ignore[valid-type]


class _PrometheusAnswer(msgspec.Struct, Generic[_T]):
    data: _T


def scrape_findings(
    up: Sequence[Sample], targets: Sequence[ScrapeTarget], jobs: Iterable[str], selector: str
) -> Iterator[DeploymentFinding]:
    """Yield whether the targets of a selector are scraped; `jobs` are those that expose metrics of watchslo."""
    if not up:
        others = sorted(jobs)
        text = f"Prometheus has no target with {selector}."
        if others:
            remedy = (
                f"Metrics of watchslo come from the job {some_of(others)}: pass --job-selector 'job=\"{others[0]}\"'."
            )
        else:
            remedy = "Make it scrape the port `metrics` of the pods: see the findings about the monitor."
        yield problem(SCRAPED, text, remedy)
        return
    down = [sample for sample in up if not sample.number]
    for trouble, count in _troubles(down, targets).items():
        text, remedy = _TROUBLES[trouble]
        yield problem(SCRAPED, f"{count} of {counted(len(up), 'target')} cannot be scraped: {text}.", remedy)
    if not down:
        yield good(SCRAPED, f"Prometheus scrapes {counted(len(up), 'target')} with {selector}.")


def _troubles(down: Iterable[Sample], targets: Sequence[ScrapeTarget]) -> Mapping[str, int]:
    """Count the targets that are down by what their last error shows."""
    counts: dict[str, int] = {}
    for sample in down:
        wanted = {label: sample.metric.get(label) for label in ("job", "instance")}.items()
        error = next((target.last_error for target in targets if wanted <= target.labels.items()), "")
        trouble = next((mark for mark in _TROUBLES if mark in error), "")
        counts[trouble] = counts.get(trouble, 0) + 1
    return counts


_DROPPED = (
    "packets to its port are dropped, or it is too slow",
    "Allow TCP to the port `metrics` from the namespace of Prometheus (Ingress of the NetworkPolicy).",
)
_TROUBLES: Mapping[str, tuple[str, str]] = {  # by a part of Go's or Prometheus's error; it may name the address
    "connection refused": ("the connection is refused", "Check that watchslo runs and listens at `server.listen`."),
    "deadline exceeded": _DROPPED,
    "i/o timeout": _DROPPED,
    "status 401": ("it requires a token", "Let the monitor send a token: see the component `authorization`."),
    "status 403": ("the token may not read /metrics", "Bind the reader role of the component `authorization` to it."),
    "x509": ("its certificate is not accepted", "Give the monitor its CA: see the component `tls`."),
    "HTTP response to HTTPS": ("it speaks plain HTTP", "Write `scheme: http` in the monitor."),
    "status 400": ("it speaks TLS only", "Write `scheme: https` in the monitor: see the component `tls`."),
    "": ("the reason is on the page of targets of Prometheus", "Look at Status > Target health there."),
}


def version_findings(found: Iterable[Sample], ours: str) -> Iterator[DeploymentFinding]:
    """Yield whether the scraped instances have the version of this command, by `watchslo_build_info`."""
    versions = {sample.metric.get("version", "unknown") for sample in found}
    if others := sorted(versions - {ours}):
        yield warning(
            "version",
            f"Prometheus scrapes version {some_of(others)}, and this command is {ours}: rules and panels may differ.",
            "Run the same version everywhere, and apply its rules and dashboards.",
        )
    elif versions:
        yield good("version", f"All scraped instances have version {ours}.")


async def check_scrapes(prometheus: Prometheus, selector: str, version: str) -> list[DeploymentFinding]:
    """Ask for the targets and their versions."""
    up = await prometheus.query(f"up{{{selector}}}")
    jobs = {sample.metric.get("job", "") for sample in await prometheus.query("count by (job) (watchslo_build_info)")}
    try:
        targets = await prometheus.targets()
    except ConnectError:  # some servers with the API of Prometheus have no targets
        targets = []
    builds = await prometheus.query(f"count by (version) (watchslo_build_info{{{selector}}})")
    return [*scrape_findings(up, targets, jobs - {""}, selector), *version_findings(builds, version)]


async def check_alertmanagers(prometheus: Prometheus) -> list[DeploymentFinding]:
    """Ask whether alerts go anywhere."""
    try:
        count = await prometheus.alertmanagers()
    except ConnectError as error:
        return [unchecked(ALERTS, f"Whether Prometheus sends alerts to an Alertmanager is not known: {error}.")]
    if count:
        return [good(ALERTS, f"Prometheus sends alerts to {counted(count, 'Alertmanager')}.")]
    remedy = "Name an Alertmanager in the configuration of Prometheus (`alerting`)."
    return [warning(ALERTS, "Prometheus sends alerts to no Alertmanager.", remedy)]
