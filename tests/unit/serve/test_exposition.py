"""The formats of the exposition: `tests/golden/negotiation.txt` has what scrapers accept and get."""

import gzip
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.conftest import GOLDEN
from tests.support.metric_messages import ACCEPT
from tests.support.transcripts import replay
from tests.unit.serve import readings
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.metrics import Detail

WORDS = {
    "PROMETHEUS-3-PROTOBUF": ACCEPT,
    "PROMETHEUS-3": (
        "OPENMETRICS;version=1.0.0;escaping=allow-utf-8;q=0.5,OPENMETRICS;version=0.0.1;q=0.4,"
        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
    ),
    "OPENMETRICS": "application/openmetrics-text",
    "PROTOBUF": "application/vnd.google.protobuf",
    "FAMILY": "proto=io.prometheus.client.MetricFamily",
}
"""What the golden file writes in place of headers and of parts of them."""


def content_type(accept: str) -> str:
    for word, meant in WORDS.items():
        accept = accept.replace(word, meant)
    found = negotiate("" if accept == "nothing" else accept, "").content_type
    for word, meant in WORDS.items():
        found = found.replace(meant, word)
    return found


def test_formats_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("negotiation.txt", replay((GOLDEN / "negotiation.txt").read_text(), lambda _: content_type))


def test_encode_gzips_if_accepted() -> None:
    encoder = MetricsEncoder(Detail.BASIC)
    plain = encoder.encode(readings.SNAPSHOT, negotiate("", "deflate"))
    zipped = encoder.encode(readings.SNAPSHOT, negotiate("", "deflate, gzip;q=0.5"))
    assert "Content-Encoding" not in plain.headers
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert b"watchslo_build_info" in plain.body
    assert b"watchslo_build_info" in gzip.decompress(zipped.body)
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize(
    ("detail", "quantiles", "lines"),
    [
        (Detail.BASIC, None, {("0.5", "1m"): 1, ("0.99", "1m"): 3}),
        (Detail.BASIC, (0.99, 0.999), {("0.99", "1m"): 3, ("0.999", "1m"): 3}),
        (Detail.FULL, (0.5, 0.999), {(q, window): n for q, n in (("0.5", 1), ("0.999", 3)) for window in ("1m", "5m")}),
    ],
)
def test_configured_quantiles_are_exposed(
    detail: Detail, quantiles: tuple[float, ...] | None, lines: dict[tuple[str, str], int]
) -> None:
    windows = tuple(
        readings.with_p999(readings.window(name, length, 6000)) for name, length in (("1m", 60), ("5m", 300))
    )
    busy = replace(readings.TAIL, track=replace(readings.TRACK, windows=windows))
    body = MetricsEncoder(detail, quantiles).encode(replace(readings.SNAPSHOT, watches=(busy,)), negotiate("", "")).body
    found = re.findall(
        r'^watchslo_apiserver_timespan_window_seconds{.*q="(.*?)".*window="(.*?)"', body.decode(), re.MULTILINE
    )
    assert Counter(found) == lines


def test_configured_quantile_of_few_events_is_absent() -> None:
    body = MetricsEncoder(Detail.BASIC, (0.99, 0.999)).encode(readings.SNAPSHOT, negotiate("", "")).body
    assert b'q="0.99"' in body
    assert b'q="0.999"' not in body
