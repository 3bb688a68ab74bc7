"""The formats of the exposition, as negotiated with a scraper."""

import gzip
import re
from collections import Counter
from dataclasses import replace

import pytest

from tests.support.metric_messages import ACCEPT
from tests.unit.serve import readings
from watchslo.serve.exposition import ExpositionFormat, MetricsEncoder, negotiate
from watchslo.serve.metrics import Detail

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
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


@pytest.mark.parametrize(
    ("accept", "is_protobuf"),
    [
        (ACCEPT, True),
        (PROTOBUF, True),  # as Prometheus 2.42 asks, apart from the texts
        (f"{PROTOBUF},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        (PROTOBUF.replace(";", " ; "), True),
        (f"{PROTOBUF};q=0.2,application/openmetrics-text;version=1.0.0;q=0.3", False),
        (f"text/plain;q=0.3,{PROTOBUF};q=0.7", True),
        (f"{PROTOBUF},text/plain", False),
        (f"{PROTOBUF},*/*", True),
        (f"{PROTOBUF};q=0", False),
        (f"{PROTOBUF};q=high", False),
        (PROTOBUF.replace("delimited", "text"), False),
        (PROTOBUF.replace("MetricFamily", "Metric"), False),
        ("application/vnd.google.protobuf", False),
        (PROMETHEUS_3, False),
        ("*/*", False),
        ("", False),
    ],
)
def test_negotiate_returns_protobuf_only_if_it_is_preferred(accept: str, is_protobuf: bool) -> None:  # noqa: FBT001
    form = negotiate(accept, "gzip")
    assert form.gzipped
    assert form.content_type.startswith("application/vnd.google.protobuf; ") == is_protobuf


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
