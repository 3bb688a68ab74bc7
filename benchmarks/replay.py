"""`python -m benchmarks.replay --tls-cert F --tls-key F` serves an apiserver over TLS with prepared bursts of pods.

Its answers equal the simulator's, byte for byte. But it encodes a burst before sending it, so that only the client
takes time. It sends like Go's HTTP server: chunks of 2 KiB, two per TLS record. A watch gets every burst after its
revision. A list of any resource is empty and has the current revision.

POST /burst/N creates N pods. The server answers before it sends the burst, so that the caller can read the clock.
"""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from urllib.parse import parse_qs, urlsplit

import click

from watchslo.sim import discovery
from watchslo.sim.encoding import dump, negotiate
from watchslo.sim.kinds import BUILT_IN
from watchslo.sim.registry import Registry
from watchslo.sim.workload import sample

FIRST = 10_000_000  # so that all revisions have eight digits,
NINES = b"99999999"  # like their placeholder
HEADSTART_SECONDS = 0.1
GO_CHUNK_BYTES = 2048  # net/http buffers this much of a body for one chunk,
GO_RECORD_BYTES = 4096  # and this much of an answer for one write
ROOTS = {"/api": True, "/apis": False}
ENDPOINTS = {"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}]}


class Storage:
    """The current revision, and the ends of the bursts up to it."""

    def __init__(self) -> None:
        self.revision = FIRST
        self._ends = [FIRST]
        self._grown = threading.Condition()

    def grow(self, events: int) -> None:
        with self._grown:
            self.revision += events
            self._ends.append(self.revision)
            self._grown.notify_all()

    def next_end(self, revision: int) -> int:
        """Wait for a burst after `revision`, and return its last revision."""
        with self._grown:
            self._grown.wait_for(lambda: self.revision > revision)
            return next(end for end in self._ends if end > revision)


STORAGE = Storage()
ACCEPTED: set[str] = set()  # the Accept headers of the watches: bursts are encoded for each in advance


@cache
def _template(accept: str) -> bytes:
    """Return the event of a pod of 3.7 KB, with nines as placeholder in its name and for its revision."""
    kind = BUILT_IN["pods"]
    pod = Registry(Random(1)).create(
        kind, "default", sample(kind, "full", f"web-7d4b9c5f6-{NINES.decode()}"), time.time()
    )
    pod["metadata"]["resourceVersion"] = NINES.decode()
    return negotiate(accept, kind, "v1", "None", listed=False).event("ADDED", pod, time.time(), head=False)


@cache
def _records(accept: str, after: int, end: int) -> list[bytes]:
    """Return the events after one revision up to another, as the blocks of single writes."""
    template = _template(accept)
    body = b"".join(template.replace(NINES, b"%d" % revision) for revision in range(after + 1, end + 1))
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in _cut(body, GO_CHUNK_BYTES))
    return list(_cut(framed, GO_RECORD_BYTES))


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        events = int(self.path.rpartition("/")[2])
        for accept in tuple(ACCEPTED):
            _records(accept, STORAGE.revision, STORAGE.revision + events)
        self._answer({})
        time.sleep(HEADSTART_SECONDS)
        STORAGE.grow(events)

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path in ROOTS:
            document = discovery.aggregated(BUILT_IN.values(), "v2", core=ROOTS[path], stale=())
            self._answer(document, discovery.AGGREGATED.format("v2"))
        elif path == "/version":
            self._answer({"gitVersion": "v1.36.3"})
        elif "watch" in query:
            self._watch(int(query["resourceVersion"][0]))
        else:
            items = [ENDPOINTS] if path.endswith("/endpointslices") else []
            self._answer({"kind": "List", "metadata": {"resourceVersion": str(STORAGE.revision)}, "items": items})

    def _answer(self, document: object, media_type: str = "application/json") -> None:
        body = dump(document)
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self, revision: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        accept = self.headers["Accept"]
        ACCEPTED.add(accept)
        while True:
            end = STORAGE.next_end(revision)
            for record in _records(accept, revision, end):
                self.wfile.write(record)
            revision = end


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Ignore clients that disconnect: watches end that way here."""


@click.command()
@click.option("--tls-cert", required=True)
@click.option("--tls-key", required=True)
def main(tls_cert: str, tls_key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls_cert, tls_key)
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(json.dumps({"url": f"https://127.0.0.1:{server.server_port}"}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
