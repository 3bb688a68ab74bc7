"""Asks a Prometheus over HTTP."""

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
    """One series of an answer; `times` in Unix seconds."""

    labels: Mapping[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A time to look at, in Unix seconds, and how far its points lie apart."""

    start: float
    end: float
    step: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    """The server at `url`."""

    url: str

    def over(self, expr: str, span: Range) -> list[Series]:
        """What the query gives over a time.

        Raises:
            ValueError: if Prometheus refuses the query.
        """
        found = self._ask("query_range", query=expr, start=span.start, end=span.end, step=span.step)
        return [_series(one["metric"], one["values"]) for one in found]

    def at(self, expr: str, time: float) -> list[Series]:
        """What the query gives at one time.

        Raises:
            ValueError: if Prometheus refuses the query.
        """
        return [_series(one["metric"], [one["value"]]) for one in self._ask("query", query=expr, time=time)]

    def _ask(self, kind: str, **query: str | float) -> list[dict[str, Any]]:
        address = f"{self.url.rstrip('/')}/api/v1/{kind}?{urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - the user names it
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            raise ValueError(f"{query['query']}: {json.load(error)['error']}") from error


def _series(labels: Mapping[str, str], points: list[tuple[float, str]]) -> Series:
    return Series(labels, tuple(time for time, _ in points), tuple(float(value) for _, value in points))
