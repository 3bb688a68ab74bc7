"""The figures in the kept lines of a page: values and histograms, summed unless a family keeps series apart. Pure."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from watchslo.own_metrics.families import LINES, Figure, MetricFamily, SeriesPart
from watchslo.own_metrics.series import LABEL, series_name, series_value
from watchslo.snapshot import HistogramReading

MOST_SERIES = 4096  # after summing: an apiserver of 1.37 has about ten for each watched resource
MOST_EDGES = 64  # of a histogram: an apiserver has at most 40
LINES_IN_STEP = 32  # that are parsed between two pauses
_DIVISION = re.compile(rb"[a-z_]{0,40}")  # stages and storages, never the name of an object


class FigureKey(NamedTuple):
    """A figure, of a resource as kubectl names it or of all (""), and of one stage or storage, or of all ("")."""

    figure: Figure
    resource: str = ""
    division: str = ""


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """The figures of a page that was read at `at`, in monotonic seconds; `garbled` lines could not be read.

    `at_wall` is the same time in Unix seconds.
    """

    at: float
    at_wall: float
    values: Mapping[FigureKey, float]
    histograms: Mapping[FigureKey, HistogramReading]
    garbled: int = 0

    @property
    def started(self) -> float | None:
        """When the process started that sent the page, in Unix seconds: this tells processes apart."""
        return self.values.get(FigureKey(Figure.STARTED))


def parse_page(
    lines: Iterable[bytes], resources: Collection[str], at: float, at_wall: float
) -> Generator[None, None, MetricsPage]:
    """Return the page of the kept lines, with only these resources; pause after each `LINES_IN_STEP` lines."""
    parser = _PageParser(resources)
    for number, line in enumerate(lines, 1):
        parser.take(line)
        if number % LINES_IN_STEP == 0:
            yield
    return parser.page(at, at_wall)


class _PageParser:
    """Sums lines into figures.

    The buckets of one series are successive lines that differ in their last label, so its other labels are read once.
    """

    def __init__(self, resources: Collection[str]) -> None:
        self._resources = resources
        self._values: defaultdict[FigureKey, float] = defaultdict(float)
        self._sums: defaultdict[FigureKey, float] = defaultdict(float)
        self._buckets: dict[FigureKey, dict[float, float]] = {}
        self._garbled = 0
        self._series: tuple[bytes, FigureKey | None] = (b"", None)  # of the last line, without its edge

    def take(self, line: bytes) -> None:
        name = series_name(line)
        family, part = LINES[name]
        end = line.rfind(b"}") + 1 or len(name)
        value = series_value(line[end:])
        edge = line.rfind(b'le="', len(name), end) if part is SeriesPart.BUCKET else end
        if value is None or edge < 0 or len(self._values) + len(self._buckets) > MOST_SERIES:
            self._garbled += 1
            return
        series = line[:edge]
        if series != self._series[0]:
            self._series = series, self._key(family, dict(LABEL.findall(series, len(name))))
        key = self._series[1]
        if key is None:
            return
        if part is SeriesPart.VALUE:
            self._values[key] += value
        elif part is SeriesPart.SUM:
            self._sums[key] += value
        else:
            self._take_bucket(key, line[edge:end].split(b'"')[1], value)

    def _take_bucket(self, key: FigureKey, edge: bytes, value: float) -> None:
        upper = math.inf if edge == b"+Inf" else series_value(edge)
        buckets = self._buckets.get(key, {})
        if upper is None or (upper not in buckets and len(buckets) >= MOST_EDGES):
            self._garbled += 1
            return
        buckets[upper] = buckets.get(upper, 0.0) + value
        self._buckets[key] = buckets

    def _key(self, family: MetricFamily, labels: Mapping[bytes, bytes]) -> FigureKey | None:
        """Return what the series is added to; None if it does not count."""
        if any(label in labels and labels[label] not in values for label, values in family.only.items()):
            return None
        resource, division = "", b""
        if family.by_resource:
            resource = _resource(labels)
            if resource not in self._resources:
                return None
        if family.divided_by is not None:
            division = labels.get(family.divided_by, b"")
            if not _DIVISION.fullmatch(division):
                return None
        return FigureKey(family.figure, resource, division.decode())

    def page(self, at: float, at_wall: float) -> MetricsPage:
        histograms = dict(self._histograms())
        garbled = self._garbled + len(self._buckets) - len(histograms)
        return MetricsPage(at, at_wall, dict(self._values), histograms, garbled)

    def _histograms(self) -> Iterator[tuple[FigureKey, HistogramReading]]:
        """Yield the histograms that are complete: with a total, and without a bucket that has less than a lower one."""
        for key, buckets in self._buckets.items():
            edges = sorted(buckets)
            counts = [int(buckets[edge]) for edge in edges]
            if edges[-1] == math.inf and counts == sorted(counts):
                yield key, HistogramReading(tuple(edges[:-1]), tuple(counts), self._sums.get(key, 0.0))


def _resource(labels: Mapping[bytes, bytes]) -> str:
    """Return the resource as kubectl names it; before 1.34 the label itself had the group."""
    plural, group = labels.get(b"resource", b""), labels.get(b"group", b"")
    return (plural + b"." + group if group else plural).decode(errors="replace")
