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
from watchslo.timeline.format import counted, printable

RECENT_SECONDS = 3600.0  # a series without samples for so long counts as absent
LONGEST_QUOTE = 300  # characters of what a Prometheus says
MOST_WARNINGS = 3  # the same one may be repeated for each series, with another name in it
PARTIAL = "Prometheus says that its answers are partial: what some of its storage nodes hold is missing."  # isPartial
_T = TypeVar("_T")


class Sample(msgspec.Struct):
    """One element of an instant vector; a native histogram has no value."""

    metric: dict[str, str]
    value: tuple[float, str] = (math.nan, "NaN")

    @property
    def number(self) -> float:
        try:
            return float(self.value[1])
        except ValueError:
            return math.nan


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

    `option` is the option of the command line that a user gives its token with. `doubts` are sentences about answers
    that may be incomplete: the warnings of Thanos and Mimir, and partial answers of VictoriaMetrics.
    """

    def __init__(self, endpoint: HttpEndpoint, option: str = "--prometheus-token-file") -> None:
        self._endpoint = endpoint
        self._warnings: dict[str, None] = {}
        self._is_partial = False
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
        found = (await self._get("/api/v1/query_range", _Matrix, query=expression, **times)).result
        return [series for received in found if (series := received.finite).values]

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why answers so far may be incomplete, in sentences."""
        warnings = [*self._warnings]
        sentences = [f"Prometheus warns: {text.rstrip('.')}." for text in warnings[:MOST_WARNINGS]]
        if more := len(warnings[MOST_WARNINGS:]):
            sentences.append(f"Prometheus has {counted(more, 'more warning')}.")
        return (*([PARTIAL] if self._is_partial else []), *sentences)

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
            raise ConnectError(self._refusals.get(status) or f"it answers {status}{_quoted_error(status, body)}")
        try:
            answer = msgspec.json.decode(body, type=_PrometheusAnswer)
            data = decode_document(answer.data, form)
        except UNDECODABLE:
            raise ConnectError("the answer is not one of a Prometheus; check the URL") from None
        self._warnings |= dict.fromkeys(map(_quotable, _texts(answer.warnings)))
        self._is_partial |= bytes(answer.is_partial) == b"true"
        return data


class _PrometheusAnswer(msgspec.Struct, rename="camel"):
    """What is said next to the data is not required to have any form: the data counts without it."""

    data: msgspec.Raw
    warnings: msgspec.Raw = msgspec.Raw(b"null")
    is_partial: msgspec.Raw = msgspec.Raw(b"false")


_ABOUT_QUERIES = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


class _PrometheusError(msgspec.Struct):
    error: str


def _texts(warnings: msgspec.Raw) -> list[str]:
    try:
        return decode_document(warnings, list[str] | None) or []  # type: ignore[arg-type]
    except UNDECODABLE:
        return [bytes(warnings).decode(errors="replace")]


def _quoted_error(status: int, body: bytes) -> str:
    """Return what a Prometheus says of a request that it refuses; other servers may say anything."""
    try:
        said = msgspec.json.decode(body, type=_PrometheusError).error
    except UNDECODABLE:
        said = body.decode(errors="replace") if status in _ABOUT_QUERIES else ""
    return f": {_quotable(said)}" if said.strip() and "<" not in said[:LONGEST_QUOTE] else ""


def _quotable(text: str) -> str:
    return printable(" ".join(text.split()))[:LONGEST_QUOTE]
