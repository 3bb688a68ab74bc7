import json
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pytest

from tools.dashboards.files import files
from tools.dashboards.queries import panels
from tools.pictures.prometheus import Prometheus, Range, Series
from tools.pictures.units import write

SPAN = Range(1000.0, 1600.0, 4.0)
TIMES = tuple(SPAN.start + 4.0 * index for index in range(151))
NAN = float("nan")


def draw(*arguments: Any) -> Any:
    """Return the figure of a dashboard."""
    from tools.pictures.draw import draw as really  # noqa: PLC0415 - it loads matplotlib, which is slow

    return really(*arguments)


class Answers(Prometheus):
    """A Prometheus that returns the same series for every query."""

    def __init__(self, *series: Series) -> None:
        super().__init__("")
        object.__setattr__(self, "series", series)
        object.__setattr__(self, "exprs", [])

    def over(self, expr: str, span: Range) -> list[Series]:
        assert span == SPAN
        self.exprs.append(expr)
        return list(self.series)

    def at(self, expr: str, time: float) -> list[Series]:
        assert time == SPAN.end
        self.exprs.append(expr)
        return [Series(series.labels, series.times[-1:], series.values[-1:]) for series in self.series]

    exprs: list[str]
    series: tuple[Series, ...]


def rising(labels: Mapping[str, str], by: float) -> Series:
    return Series(labels, TIMES, tuple(by * index for index in range(len(TIMES))))


SERIES = (
    rising({"le": "0.5", "watch": "pods"}, 0.01),
    rising({"le": "1.0", "watch": "nodes"}, 0.02),
    Series({"le": "+Inf"}, TIMES[:2] + TIMES[90:], (NAN,) + (3.0,) * 62),
)


@pytest.mark.parametrize("name", files())
def test_draw_shows_every_panel(name: str) -> None:
    dashboard, answers = json.loads(files()[name]), Answers(*SERIES)
    figure = draw(dashboard, answers, SPAN, 8.0, {"cluster": "prod-eu"})
    written = [text.get_text() for text in figure.texts]
    for panel in panels(dashboard):
        assert panel["title"] in written
    assert len(answers.exprs) == sum(len(panel["targets"]) for panel in panels(dashboard))
    assert not any("$" in expr for expr in answers.exprs)
    assert any("[8s]" in expr for expr in answers.exprs) is ("$__rate_interval" in files()[name])
    assert all('cluster=~"prod-eu"' in expr for expr in answers.exprs)
    assert not [text for axes in figure.axes for text in axes.texts]  # no panel shows "No data"
    figure.draw_without_rendering()


@pytest.mark.parametrize("series", [(), (Series({"le": "+Inf"}, TIMES, (NAN,) * len(TIMES)),)])
def test_panels_without_finite_values_show_no_data(series: tuple[Series, ...]) -> None:
    dashboard = json.loads(files()["watchslo-slo.json"])
    figure = draw(dashboard, Answers(*series), SPAN, 8.0, {})
    shown = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert shown == ["No data"] * len(list(panels(dashboard)))


def test_draw_accepts_series_of_zeros() -> None:
    figure = draw(json.loads(files()["watchslo-slo.json"]), Answers(rising({"le": "1.0"}, 0.0)), SPAN, 8.0, {})
    figure.draw_without_rendering()


class Http:
    """A fake of Prometheus' HTTP API."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, result: list[dict[str, Any]]) -> None:
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self._result = result
        monkeypatch.setattr("urllib.request.urlopen", self._open)

    def _open(self, address: str, timeout: float) -> "Http":
        assert timeout > 0
        parts = urlsplit(address)
        self.requests.append((parts.path, parse_qs(parts.query)))
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def read(self) -> str:
        return json.dumps({"status": "success", "data": {"result": self._result}})


def test_over_sends_a_range_query(monkeypatch: pytest.MonkeyPatch) -> None:
    http = Http(monkeypatch, [{"metric": {"a": "b"}, "values": [[1000, "1.5"], [1004, "NaN"]]}])
    (series,) = Prometheus("http://prometheus/").over("up", SPAN)
    assert http.requests == [
        ("/api/v1/query_range", {"query": ["up"], "start": ["1000.0"], "end": ["1600.0"], "step": ["4.0"]})
    ]
    assert (series.labels, series.times, series.values[0]) == ({"a": "b"}, (1000, 1004), 1.5)


def test_at_sends_an_instant_query(monkeypatch: pytest.MonkeyPatch) -> None:
    http = Http(monkeypatch, [{"metric": {}, "value": [1600, "2"]}])
    assert Prometheus("http://prometheus").at("up", SPAN.end) == [Series({}, (1600,), (2.0,))]
    assert http.requests == [("/api/v1/query", {"query": ["up"], "time": ["1600.0"]})]


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (0.0, "s", "0"),
        (0.0123, "s", "12.3 ms"),
        (1.0, "s", "1 s"),
        (90.0, "s", "1.5 min"),
        (0.985, "percentunit", "98.5%"),
        (-8.5, "percentunit", "-850%"),
        (6510, "short", "6.51K"),
        (0.25, "short", "0.25"),
        (12, "eps", "12 evt/s"),
        (2.17, "reqps", "2.17 req/s"),
        (2048, "Bps", "2 KiB/s"),
        (3 * 2**20, "bytes", "3 MiB"),
        (14.4, "suffix:x", "14.4x"),
        (float("inf"), "s", "inf"),
    ],
)
def test_values_are_formatted_as_in_grafana(value: float, unit: str, written: str) -> None:
    assert write(value, unit) == written
