"""`python -m benchmarks.metrics_page` measures what it costs to read an apiserver's own metrics once.

It reads the pages of real apiservers on the daemon's event loop, as the daemon does, and prints bytes, this thread's
CPU, the CPU of the apiserver, and the longest time in which the loop did nothing else. `--megabytes` also reads a page
that a plain server sends, made as large by repeating the largest family.
"""

import asyncio
import contextlib
import os
import re
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path

import click

from tests.contract.cluster import client_of
from tests.support import assets
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.writer import Writer
from watchslo.config.model import Config
from watchslo.event_loop import TimedEventLoop
from watchslo.kube.client import Client
from watchslo.kube.credentials import Access, tls_context
from watchslo.monitor.slices import WorkSlices
from watchslo.own_metrics.families import FAMILIES
from watchslo.own_metrics.line_filter import LineFilter
from watchslo.own_metrics.page import MetricsPage, parse_page

READS = 20
RESOURCES = [watch.resource for watch in Config().watch]
CPU = re.compile(rb"^process_cpu_seconds_total (\S+)$", re.MULTILINE)


class Beats:
    """Notes the longest time between two turns of the event loop, by this thread's CPU time and by the clock."""

    def __init__(self) -> None:
        self.elapsed = self.cpu = 0.0
        self._turn = asyncio.get_running_loop().call_soon(self._beat)
        self._at, self._cpu_at = time.monotonic(), time.thread_time()

    def _beat(self) -> None:
        now, cpu = time.monotonic(), time.thread_time()
        self.elapsed, self.cpu = max(self.elapsed, now - self._at), max(self.cpu, cpu - self._cpu_at)
        self._at, self._cpu_at = now, cpu
        self._turn = asyncio.get_running_loop().call_soon(self._beat)

    def stop(self) -> None:
        self._turn.cancel()


async def read(client: Client) -> tuple[LineFilter, MetricsPage]:
    """Read and parse a page, as the daemon does."""
    kept, slices = LineFilter(), WorkSlices()

    async def take(piece: bytes) -> None:
        kept.feed(piece)
        await slices.pause()

    failure = await client.read_metrics(take)
    assert failure is None, failure
    kept.finish()
    page = await slices.run(parse_page(kept.lines, RESOURCES, time.monotonic(), time.time()))
    return kept, page


async def measure(access: Access, of_apiserver: Callable[[], float] | None) -> str:
    async with client_of(access) as client:
        kept, page = await read(client)
        spent, before = list[float](), of_apiserver() if of_apiserver else 0.0
        for _ in range(READS):
            began = time.thread_time()
            kept, page = await read(client)
            spent.append(time.thread_time() - began)
        theirs = f", apiserver {1000 * (of_apiserver() - before) / READS:.0f} ms CPU a read" if of_apiserver else ""
        beats = Beats()
        for _ in range(READS):
            await read(client)
        beats.stop()
    return (
        f"{kept.size:,} bytes, {len(kept.lines):,} lines kept, {len(page.values) + len(page.histograms)} figures; "
        f"{1000 * statistics.median(spent):.1f} ms CPU a read{theirs}; "
        f"longest block {1000 * beats.cpu:.2f} ms CPU, {1000 * beats.elapsed:.2f} ms"
    )


@contextlib.contextmanager
def apiserver(found: assets.Assets) -> Iterator[ControlPlane]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Etcd(folder, found.etcd) as etcd, ControlPlane(folder, found.kube_apiserver, etcd) as plane:
            yield plane


def cpu_of(writer: Writer) -> float:
    """Return the CPU seconds that an apiserver has used."""
    (seconds,) = CPU.findall(writer.text("/metrics").encode())
    return float(seconds)


def access_to(plane: ControlPlane) -> Access:
    tls = tls_context(str(plane.ca))
    return Access(plane.url, (("Authorization", f"Bearer {plane.token}"),), tls=tls)


def enlarged(page: bytes, megabytes: float) -> bytes:
    """Return the page with its largest unread family repeated."""
    largest = b"apiserver_request_duration_seconds"
    assert largest not in FAMILIES
    start = page.index(b"# HELP " + largest + b" ")
    block = b"".join(line + b"\n" for line in page.split(b"\n") if line.startswith(largest + b"_bucket"))
    return page[:start] + block * int(megabytes * 1e6 / len(block)) + page[start:]


def serve_plainly(page: bytes, listener: socket.socket) -> None:
    """Answer the requests on each connection with the page; for a thread of its own."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(page)}\r\n\r\n".encode()
    while True:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(ConnectionError):
            while connection.recv(4096):
                connection.sendall(head)
                connection.sendall(page)


def run(work: Coroutine[None, None, str]) -> None:
    with asyncio.Runner(loop_factory=TimedEventLoop) as runner:
        print(runner.run(work))


@click.command()
@click.option("--megabytes", type=float, default=20.0, help="The size of the enlarged page.")
def main(megabytes: float) -> None:
    page = b""
    for found in (assets.old(os.environ), assets.newest(os.environ)):
        with apiserver(found) as plane, plane.writer() as writer:
            print(found.kube_apiserver.parent.name, end=": ")
            run(measure(access_to(plane), partial(cpu_of, writer)))
            page = writer.text("/metrics").encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        large = enlarged(page, megabytes)
        threading.Thread(target=serve_plainly, args=(large, listener), daemon=True).start()
        host, port = listener.getsockname()
        print(f"{megabytes:g} MB, without TLS", end=": ")
        run(measure(Access(f"http://{host}:{port}", ()), None))


if __name__ == "__main__":
    main()
