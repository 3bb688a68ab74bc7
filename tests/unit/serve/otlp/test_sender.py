"""What a collector gets, and what an error says: against a small HTTP server."""

import gzip
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics.export import MetricsData

from tests.support.background import ServerThread
from watchslo.serve.otlp.failure import PushError, of_error, of_status
from watchslo.serve.otlp.sender import Sender

NOTHING = MetricsData([])
URL = "http://collector:4318/v1/metrics"


@dataclass
class Receiver:
    """Answers each request with `status`, and keeps the requests."""

    status: int = 200
    url: str = ""
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answer_mib: int = 0
    is_cut: bool = False


@contextmanager
def receiving(receiver: Receiver) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.paths.append(self.path)
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            receiver.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(receiver.status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(receiver.answer_mib * 2**20))
            self.end_headers()
            try:
                for _ in range(receiver.answer_mib):
                    self.wfile.write(bytes(2**20))
            except OSError:
                receiver.is_cut = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # its end waits for the handlers, which note what they saw
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    with ServerThread(server):
        yield receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving(Receiver()) as found:
        yield found


@contextmanager
def sender(endpoint: str | None, headers_file: Path | None = None) -> Iterator[Sender]:
    made = Sender(endpoint, None if headers_file is None else str(headers_file))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up after the first attempt: the exporter draws a wait that is longer than its timeout."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    monkeypatch.setattr("random.uniform", lambda *_: math.inf)


@pytest.mark.parametrize("status", [200, 400])
def test_long_answer_is_not_read_to_its_end(status: int) -> None:
    receiver = Receiver(status, answer_mib=64)
    with receiving(receiver), sender(receiver.url) as made:
        if status == 200:
            made.send(NOTHING)
        else:
            assert "it answered 400" in refusal(made)
    assert receiver.is_cut


def refusal(made: Sender) -> str:
    with pytest.raises(PushError) as caught:
        made.send(NOTHING)
    return str(caught.value)


def test_request_is_compressed_protobuf_at_the_path_for_metrics(receiver: Receiver) -> None:
    with sender(receiver.url) as made:
        made.send(NOTHING)
    assert receiver.paths == ["/v1/metrics"]
    assert receiver.headers[0]["content-type"] == "application/x-protobuf"
    assert ExportMetricsServiceRequest.FromString(gzip.decompress(receiver.bodies[0])) == ExportMetricsServiceRequest()


def test_variables_of_opentelemetry_are_used_without_keys(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{receiver.url}/prefix/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    with sender(None) as made:
        made.send(NOTHING)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{receiver.url}/whole")
    with sender(None) as made:
        made.send(NOTHING)
    assert receiver.paths == ["/prefix/v1/metrics", "/whole"]
    assert receiver.headers[0]["x-tenant"] == "a"
    assert "content-encoding" not in receiver.headers[0]


def test_headers_are_read_again_for_each_push(receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer one\n\nX-Tenant: a:b\n")
    with sender(receiver.url, file) as made:
        made.send(NOTHING)
        file.write_text("Authorization: Bearer two\n")
        made.send(NOTHING)
    assert [headers["authorization"] for headers in receiver.headers] == ["Bearer one", "Bearer two"]
    assert [headers.get("x-tenant") for headers in receiver.headers] == ["a:b", None]


def test_missing_file_of_headers_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(PushError, match=r"^cannot read .*: no such file or directory; correct `otlp.headersFile`$"):
        Sender(None, str(tmp_path / "none"))


@pytest.mark.parametrize("line", ["SECRET", ": SECRET", "name: SE\x01CRET"])
def test_line_that_is_no_header_is_not_quoted(tmp_path: Path, line: str) -> None:
    file = tmp_path / "headers"
    file.write_text(f"X-A: b\n{line}\n")
    with pytest.raises(PushError, match=r"line 2 is not a header; write for example Author") as caught:
        Sender(None, str(file))
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("status", [401, 404, 503])
def test_answer_that_accepts_nothing_is_an_error(receiver: Receiver, status: int) -> None:
    receiver.status = status
    with sender(receiver.url) as made:
        assert refusal(made) == f"cannot push metrics to {receiver.url}/v1/metrics: {of_status(status)}"


def test_redirection_is_an_error(receiver: Receiver) -> None:
    receiver.status = 308
    with sender(receiver.url) as made:
        assert "answered 308, a redirection; write the URL" in refusal(made)
    assert receiver.paths == ["/v1/metrics"]


def test_closed_port_is_an_error_and_nothing_else_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with receiving(Receiver()) as closed:
        pass
    with caplog.at_level(logging.WARNING), sender(closed.url) as made:
        assert refusal(made) == (
            f"cannot push metrics to {closed.url}/v1/metrics: connection refused; "
            "start the collector, or correct `otlp.endpoint`"
        )
    assert caplog.records == []


def test_unknown_name_is_an_error() -> None:
    with sender("http://collector.invalid:4318") as made:
        assert refusal(made).endswith("its name is unknown here; correct `otlp.endpoint`")


def test_credentials_of_a_url_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:SECRET@collector.invalid:4318")
    with sender(None) as made:
        assert "SECRET" not in refusal(made)


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (requests.exceptions.SSLError(), "OTEL_EXPORTER_OTLP_CERTIFICATE"),
        (requests.exceptions.ProxyError(), "NO_PROXY"),
        (requests.exceptions.ReadTimeout(), "does not answer in time"),
        (requests.exceptions.ConnectionError(ConnectionResetError(104, "x")), "connection reset by peer; check its"),
        (requests.exceptions.ConnectionError(), "the connection broke"),
        (OSError("Could not find a suitable TLS CA certificate bundle"), "certificate file cannot be read"),
        (requests.exceptions.InvalidHeader("SECRET"), "the request failed (InvalidHeader in "),
    ],
)
def test_reason_of_an_error_names_the_remedy(error: Exception, what: str) -> None:
    reason = of_error(error, URL)
    assert what in reason
    assert "SECRET" not in reason


def test_port_of_grpc_is_recognised() -> None:
    broken = requests.exceptions.ConnectionError("BadStatusLine")
    assert "write port 4318" in of_error(broken, "http://collector:4317/v1/metrics")
    assert "4318" not in of_error(broken, URL)
