"""The metrics of a snapshot as bytes: Prometheus' text or OpenMetrics, plain or gzipped, as the scraper accepts."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest, gzip_accepted
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from watchslo.serve.document import Document
from watchslo.serve.family_lines import FamilyLines
from watchslo.serve.metrics import FAMILIES, Detail, Family
from watchslo.serve.metrics.latency import WINDOW_QUANTILES, window_quantiles
from watchslo.snapshot import Snapshot

GZIP_LEVEL = 1  # series repeat their labels: higher levels compress little better
GZIP_WINDOW_BITS = 31  # zlib's largest window, with a header of gzip

Encoder = Callable[[Collector], bytes]

# Every format that is offered. prometheus_client would confirm any requested version and write the one it knows.
_ACCEPTS = (
    "",
    "application/openmetrics-text",
    *(
        f"{media_type};version=1.0.0;escaping={escaping}"
        for media_type in ("text/plain", "application/openmetrics-text")
        for escaping in ("allow-utf-8", "underscores")
    ),
)
# Our names need no escaping: both schemes write the same bytes.
_openmetrics = partial(openmetrics.generate_latest, escaping=openmetrics.ALLOWUTF8)
_ENCODERS: dict[str, Encoder] = {
    content_type: _openmetrics if content_type.startswith("application/openmetrics") else generate_latest
    for _, content_type in map(choose_encoder, _ACCEPTS)
}


@dataclass(frozen=True, slots=True)
class ExpositionFormat:
    """A format of the exposition."""

    content_type: str
    gzipped: bool


def negotiate(accept: str, accept_encoding: str) -> ExpositionFormat:
    """Return the format that suits both headers best; plain text if none does."""
    try:
        _, content_type = choose_encoder(accept)
    except TypeError:  # a version that is not a number
        content_type = CONTENT_TYPE_PLAIN_0_0_4
    known = content_type if content_type in _ENCODERS else CONTENT_TYPE_PLAIN_0_0_4
    return ExpositionFormat(known, gzip_accepted(accept_encoding))


class MetricsEncoder:
    """Encodes snapshots at the configured level of detail, together with the metrics of this process.

    `quantiles` are those of rolling windows, by default those of the level.
    Use it in one thread: it keeps the lines of the watches until their next evaluation.
    """

    def __init__(self, detail: Detail, quantiles: Iterable[float] | None = None) -> None:
        views = [(family, family.view(detail)) for family in FAMILIES]
        if quantiles is not None:
            chosen = window_quantiles(detail, frozenset(quantiles))
            views = [(family, chosen if family is WINDOW_QUANTILES else view) for family, view in views]
        self._families = [(family, FamilyLines(family, view)) for family, view in views if view]
        self._process = ProcessCollector(registry=None)

    def encode(self, snapshot: Snapshot, form: ExpositionFormat) -> Document:
        pieces = tuple(self._pieces(snapshot, _ENCODERS[form.content_type]))
        headers = {"Vary": "Accept, Accept-Encoding"}
        if not form.gzipped:
            return Document(pieces, form.content_type, headers)
        return Document((_gzip(pieces),), form.content_type, headers | {"Content-Encoding": "gzip"})

    def _pieces(self, snapshot: Snapshot, encoder: Encoder) -> Iterator[bytes]:
        """Yield the families that have samples, then the metrics of this process."""
        for family, lines in self._families:
            if pieces := lines.pieces(snapshot):
                yield _header(family, encoder) + pieces[0]
                yield from pieces[1:]
        yield encoder(self._process)


class _WithoutSamples(Collector):
    """A family without samples, of which the encoders of prometheus_client make the header."""

    def __init__(self, family: Family) -> None:
        self._metric = Metric(family.name.removesuffix("_total"), family.help, family.type)

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


@cache
def _header(family: Family, encoder: Encoder) -> bytes:
    return encoder(_WithoutSamples(family)).removesuffix(b"# EOF\n")


def _gzip(pieces: Iterable[bytes]) -> bytes:
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW_BITS)
    return b"".join([*map(compressor.compress, pieces), compressor.flush()])
