"""The metrics of a snapshot as bytes, plain or gzipped: Prometheus' text, OpenMetrics or protobuf, as is accepted.

Only protobuf has native histograms, and only a Prometheus that is configured to take them prefers it to text.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest, gzip_accepted
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from watchslo.serve.document import Document
from watchslo.serve.family_lines import FamilyLines
from watchslo.serve.metrics import Detail, Family, exposed
from watchslo.snapshot import Snapshot

GZIP_LEVEL = 1  # series repeat their labels: higher levels compress little better
GZIP_WINDOW_BITS = 31  # zlib's largest window, with a header of gzip

PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
_PROTOBUF = frozenset(PROTOBUF.split("; "))
_TEXTS = ("application/openmetrics-text", "text/plain")

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
    gzipped = gzip_accepted(accept_encoding)
    if _prefers_protobuf(accept):
        return ExpositionFormat(PROTOBUF, gzipped)
    try:
        _, content_type = choose_encoder(accept)
    except TypeError:  # a version that is not a number
        content_type = CONTENT_TYPE_PLAIN_0_0_4
    known = content_type if content_type in _ENCODERS else CONTENT_TYPE_PLAIN_0_0_4
    return ExpositionFormat(known, gzipped)


def _prefers_protobuf(accept: str) -> bool:
    """Return whether protobuf has a higher `q` than every text, which a scraper has to ask for."""
    best = {True: 0.0, False: 0.0}
    for accepted in accept.split(","):
        media_type, *parameters = (part.strip() for part in accepted.split(";"))
        is_protobuf = {media_type, *parameters} >= _PROTOBUF
        if is_protobuf or media_type in _TEXTS:
            q = next((parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1")
            best[is_protobuf] = max(best[is_protobuf], _weight(q))
    return best[True] > best[False]


def _weight(q: str) -> float:
    try:
        return float(q)
    except ValueError:
        return 0.0


class MetricsEncoder:
    """Encodes snapshots at the configured level of detail, together with the metrics of this process.

    `quantiles` are those of rolling windows, by default those of the level.
    Use it in one thread: it keeps the lines of the watches until their next evaluation.
    """

    def __init__(self, detail: Detail, quantiles: Iterable[float] | None = None) -> None:
        self._views = exposed(detail, quantiles)
        self._lines = [(family, FamilyLines(family, view)) for family, view in self._views]
        self._process = ProcessCollector(registry=None)

    def encode(self, snapshot: Snapshot, form: ExpositionFormat) -> Document:
        is_protobuf = form.content_type == PROTOBUF
        found = self._protobuf(snapshot) if is_protobuf else self._text(snapshot, _ENCODERS[form.content_type])
        pieces = tuple(found)
        headers = {"Vary": "Accept, Accept-Encoding"}
        if not form.gzipped:
            return Document(pieces, form.content_type, headers)
        return Document((_gzip(pieces),), form.content_type, headers | {"Content-Encoding": "gzip"})

    def _text(self, snapshot: Snapshot, encoder: Encoder) -> Iterator[bytes]:
        """Yield the families that have samples, then the metrics of this process."""
        for family, lines in self._lines:
            if pieces := lines.pieces(snapshot):
                yield _header(family, encoder) + pieces[0]
                yield from pieces[1:]
        yield encoder(self._process)

    @cached_property
    def _protobuf(self) -> Callable[[Snapshot], Iterator[bytes]]:
        """The same as messages. The library for them takes 2 MiB, so the first scrape of this kind imports it."""
        from watchslo.serve.family_messages import MessageEncoder  # noqa: PLC0415 - see above

        return MessageEncoder(self._views, self._process).encode


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
