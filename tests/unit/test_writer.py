"""The plain client of the tests continues after its server has closed an idle connection."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from tests.support.background import ServerThread
from tests.support.writer import Writer


class Forgetful(HTTPServer):
    """Closes each connection after one answer, without saying so in that answer; `closed` tells that it did."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ShortAnswer)
        self.closed = threading.Semaphore(0)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed.release()


class ShortAnswer(BaseHTTPRequestHandler):
    """Answers `ok`, and then ends the connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_writer_opens_a_connection_again_that_was_closed_while_idle() -> None:
    server = Forgetful()
    with ServerThread(server), Writer(f"http://127.0.0.1:{server.server_port}") as writer:
        for _ in range(3):
            assert writer.text("/readyz") == "ok"
            server.closed.acquire()
