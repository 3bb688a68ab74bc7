"""The exposition's forms: what a scraper may ask for, and what it is given."""

import gzip

import pytest

from tests.unit.serve import readings
from watchslo.serve.exposition import Form, MetricsEncoder, negotiate
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
def test_negotiates_what_is_known(accept: str, content_type: str) -> None:
    assert negotiate(accept, "") == Form(content_type, gzipped=False)


def test_gzips_for_those_who_accept_it() -> None:
    encoder = MetricsEncoder(Detail.BASIC)
    plain = encoder.encode(readings.SNAPSHOT, negotiate("", "deflate"))
    zipped = encoder.encode(readings.SNAPSHOT, negotiate("", "deflate, gzip;q=0.5"))
    assert "Content-Encoding" not in plain.headers
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert b"watchslo_build_info" in plain.body
    assert b"watchslo_build_info" in gzip.decompress(zipped.body)
    assert plain.headers["Vary"] == zipped.headers["Vary"] == "Accept, Accept-Encoding"


def test_has_the_metrics_of_the_process() -> None:
    body = MetricsEncoder(Detail.BASIC).encode(readings.SNAPSHOT, negotiate("", "")).body
    assert b"\nprocess_resident_memory_bytes " in body


def test_ends_openmetrics_as_the_format_demands() -> None:
    form = negotiate("application/openmetrics-text", "")
    assert MetricsEncoder(Detail.FULL).encode(readings.EMPTY, form).body.endswith(b"# EOF\n")
