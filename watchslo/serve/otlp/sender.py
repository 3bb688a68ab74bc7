"""Sends data points to a collector with the exporter of OpenTelemetry, which encodes, compresses and retries."""

import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from requests.adapters import HTTPAdapter

from watchslo.config.values import METRICS_PATH
from watchslo.serve.otlp.failure import PushError, of_error, of_status

DEFAULT_ENDPOINT = "http://localhost:4318"
LONGEST_ANSWER_BYTES = 2**16
LONGEST_HEADERS = 2**16  # bytes of the file
_METRICS_ENDPOINT, _ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
_COMPRESSION = ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION")


class Sender:
    """Sends to `endpoint`, or to that of OpenTelemetry's variables, with the headers in a file.

    The file is read for each push, because tokens are renewed. Use it in one thread.
    """

    def __init__(self, endpoint: str | None, headers_file: str | None) -> None:
        self._url = _url(endpoint)
        self._headers_file = headers_file
        self._headers = _headers(headers_file)
        self._adapter = _OutcomeAdapter()
        self._exporter = self._new_exporter()

    @property
    def shown(self) -> str:
        """The URL without credentials."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def send(self, points: MetricsData) -> None:
        """Send the points; raises PushError that says why they were not accepted."""
        headers = _headers(self._headers_file)
        if headers != self._headers:
            self._exporter.shutdown()
            self._headers = headers
            self._exporter = self._new_exporter()
        self._adapter.failure = "the exporter of OpenTelemetry cannot encode them; install its newest version"
        result = self._exporter.export(points)
        if result is not MetricExportResult.SUCCESS or self._adapter.failure:  # it takes redirections for success
            raise PushError(f"cannot push metrics to {self.shown}: {self._adapter.failure}")

    def close(self) -> None:
        """End a push under way as soon as possible; another thread may call this."""
        self._exporter.shutdown()

    def _new_exporter(self) -> OTLPMetricExporter:
        # It logs each attempt that fails, with addresses and for minutes; the error that `send` raises says more.
        logging.getLogger(OTLPMetricExporter.__module__).setLevel(logging.CRITICAL)
        session = requests.Session()
        session.mount("http://", self._adapter)
        session.mount("https://", self._adapter)
        compression = None if any(map(os.environ.get, _COMPRESSION)) else Compression.Gzip
        return OTLPMetricExporter(self._url, headers=self._headers, compression=compression, session=session)


class _OutcomeAdapter(HTTPAdapter):
    """Sends requests, and keeps in `failure` why the last one failed: the exporter returns only that it did."""

    failure = ""

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        try:
            response = super().send(request, *args, **{**options, "stream": True})
            _read_beginning(response)
        except Exception as error:
            self.failure = of_error(error, request.url or "")
            raise
        self.failure = "" if response.status_code in range(200, 300) else of_status(response.status_code)
        return response


def _read_beginning(response: requests.Response) -> None:
    """Let the beginning of an answer be all of it: requests reads answers of any length into memory."""
    response._content = next(response.iter_content(LONGEST_ANSWER_BYTES), b"")  # noqa: SLF001 - as it does itself
    if len(response.content) >= LONGEST_ANSWER_BYTES:
        response.raw.close()  # else the rest would come before the next answer
    response.close()


def _url(endpoint: str | None) -> str:
    """Return the URL of the requests; the variable for metrics alone has the whole URL."""
    if endpoint is None and (whole := os.environ.get(_METRICS_ENDPOINT)):
        return whole
    base = endpoint or os.environ.get(_ENDPOINT) or DEFAULT_ENDPOINT
    return base.rstrip("/") + METRICS_PATH


def _headers(file: str | None) -> dict[str, str]:
    """Return the headers in a file, one `Name: value` in each line; raises PushError."""
    if file is None:
        return {}
    try:
        with Path(file).open(encoding="latin-1") as opened:
            lines = opened.read(LONGEST_HEADERS).splitlines()
    except OSError as error:
        raise PushError(
            f"cannot read {file}: {(error.strerror or 'unknown').lower()}; correct `otlp.headersFile`"
        ) from None
    found = {}
    for number, line in enumerate(filter(str.strip, lines), 1):
        name, colon, value = line.partition(":")
        if not (colon and name.strip() and value.strip().isprintable()):
            raise PushError(f"{file}: line {number} is not a header; write for example Authorization: Bearer TOKEN")
        found[name.strip()] = value.strip()
    return found
