"""The formats of the exposition, as negotiated with a scraper."""

import gzip

import pytest

from tests.unit.serve import readings
from watchslo.serve.exposition import ExpositionFormat, MetricsEncoder, negotiate
from watchslo.serve.metrics import Detail

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;"
    "q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text;version=1.0.0", OPENMETRICS + "; escaping=underscores"),
        (PROMETHEUS_3, OPENMETRICS + "; escaping=allow-utf-8"),
        ("application/openmetrics-text;version=9.9.9", TEXT),
        ("application/openmetrics-text;version=newest", TEXT),
        ("application/openmetrics-text;version=1.0.0;escaping=dots", TEXT),
    ],
)
def test_negotiate_returns_a_known_format(accept: str, content_type: str) -> None:
    assert negotiate(accept, "") == ExpositionFormat(content_type, gzipped=False)


def test_encode_gzips_if_accepted() -> None:
    encoder = MetricsEncoder(Detail.BASIC)
    plain = encoder.encode(readings.SNAPSHOT, negotiate("", "deflate"))
    zipped = encoder.encode(readings.SNAPSHOT, negotiate("", "deflate, gzip;q=0.5"))
    assert "Content-Encoding" not in plain.headers
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert b"watchslo_build_info" in plain.body
    assert b"watchslo_build_info" in gzip.decompress(zipped.body)
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept, Accept-Encoding"


def test_encode_includes_process_metrics() -> None:
    body = MetricsEncoder(Detail.BASIC).encode(readings.SNAPSHOT, negotiate("", "")).body
    assert b"\nprocess_resident_memory_bytes " in body


def test_openmetrics_ends_with_eof() -> None:
    form = negotiate("application/openmetrics-text", "")
    assert MetricsEncoder(Detail.FULL).encode(readings.EMPTY, form).body.endswith(b"# EOF\n")
