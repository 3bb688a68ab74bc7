"""A client of the HTTP API of Prometheus."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Series:
    """A series of a result; `times` in Unix seconds."""

    labels: Mapping[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A time range in Unix seconds, and the distance of its points."""

    start: float
    end: float
    step: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    """The server at `url`."""

    url: str

    def over(self, expr: str, span: Range) -> list[Series]:
        """Return the result of a range query.

        Raises:
            ValueError: if Prometheus refuses the query.
        """
        found = self._get("query_range", query=expr, start=span.start, end=span.end, step=span.step)
        return [_series(entry["metric"], entry["values"]) for entry in found]

    def at(self, expr: str, time: float) -> list[Series]:
        """Return the result of an instant query.

        Raises:
            ValueError: if Prometheus refuses the query.
        """
        return [_series(entry["metric"], [entry["value"]]) for entry in self._get("query", query=expr, time=time)]

    def _get(self, kind: str, **query: str | float) -> list[dict[str, Any]]:
        address = f"{self.url.rstrip('/')}/api/v1/{kind}?{urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - the user gives the URL
                found: list[dict[str, Any]] = json.load(response)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            raise ValueError(f"{query['query']}: {json.load(error)['error']}") from error


def _series(labels: Mapping[str, str], points: list[tuple[float, str]]) -> Series:
    return Series(labels, tuple(time for time, _ in points), tuple(float(value) for _, value in points))
