"""Asks a Prometheus by its HTTP API."""

import math
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TypeVar

import msgspec

from watchslo.app.http_endpoint import HttpEndpoint
from watchslo.documents import decode_document
from watchslo.errors import UNDECODABLE, ConnectError
from watchslo.report.queries import MetricSeries

RECENT_SECONDS = 3600.0  # a series without samples for so long counts as absent
_T = TypeVar("_T")


class Sample(msgspec.Struct):
    """One element of an instant vector; a native histogram has no value."""

    metric: dict[str, str]
    value: tuple[float, str] = (math.nan, "NaN")

    @property
    def number(self) -> float:
        return float(self.value[1])


class _Vector(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[Sample]


class _Matrix(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[MetricSeries]


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
    """The HTTP API of a Prometheus; each method raises ConnectError with the reason if there is no usable answer.

    `option` is the option of the command line that a user gives its token with.
    """

    def __init__(self, endpoint: HttpEndpoint, option: str = "--prometheus-token-file") -> None:
        self._endpoint = endpoint
        self._refusals: Mapping[int, str] = {
            HTTPStatus.UNAUTHORIZED: f"it requires a valid token; pass one with {option}",
            HTTPStatus.FORBIDDEN: f"this identity may not read it; pass another token with {option}",
            HTTPStatus.NOT_FOUND: "it does not serve this part of the API of Prometheus; check the URL and its path",
        }

    async def query(self, expression: str) -> list[Sample]:
        """Return the vector of an instant query."""
        return (await self._get("/api/v1/query", _Vector, query=expression)).result

    async def query_range(self, expression: str, start: float, end: float, step: float) -> list[MetricSeries]:
        """Return the matrix of a query that is evaluated every `step` seconds."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.0f}"}
        return (await self._get("/api/v1/query_range", _Matrix, query=expression, **times)).result

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
            raise ConnectError(self._refusals.get(status, f"it answers {status}"))
        try:
            data = msgspec.json.decode(body, type=_PrometheusAnswer).data
            return decode_document(data, form)
        except UNDECODABLE:
            raise ConnectError("the answer is not one of a Prometheus; check the URL") from None


class _PrometheusAnswer(msgspec.Struct):
    data: msgspec.Raw
