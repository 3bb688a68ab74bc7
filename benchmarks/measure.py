"""Shared parts of the benchmarks: servers and daemons as processes of their own, and their CPU and memory."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from tests.support.certs import Authority
from tests.support.daemon import Daemon, outside
from tests.support.process import Process

MIB = 2**20
PATIENCE_SECONDS = 120.0
BLOCK_SECONDS = 5.0  # the time between two evaluations of all watches


def figure(what: str, value: float, unit: str, goal: str = "") -> None:
    """Print one line of the report; `goal` describes the expected value."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    print(f"  {what:<58}{value:10,.{digits}f} {unit:<18}{goal}", flush=True)


@dataclass(frozen=True, slots=True)
class Server:
    """A simulated apiserver over TLS, with the folder of a service account."""

    url: str
    service_account: Path


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[Server]:
    """Run a server module with its own certificate, and yield the server when it has printed its URL."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        authority = Authority(folder / "certificates")
        pair = authority.server("server")
        tls = ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
        with Process(folder, "server", [sys.executable, "-m", module, *arguments, *tls]) as process:
            process.until(lambda: "\n" in process.out, "a URL")
            url = json.loads(process.out.splitlines()[0])["url"]
            service_account = folder / "serviceaccount"
            service_account.mkdir()
            (service_account / "token").write_text("token")
            (service_account / "ca.crt").write_bytes(authority.ca.read_bytes())
            yield Server(url, service_account)


def pod_environment(server: Server) -> dict[str, str]:
    """Return the environment of a pod in the server's cluster, for `benchmarks.pod`."""
    address = urlsplit(server.url)
    return outside(
        KUBERNETES_SERVICE_HOST=str(address.hostname),
        KUBERNETES_SERVICE_PORT=str(address.port),
        PYTHONPATH=str(Path.cwd()),
    )


def cpu_seconds(process: Process) -> float:
    """Return the CPU time of all its threads, to the nanosecond: /proc/PID/stat has only hundredths of a second."""
    return time.clock_gettime(~process.pid << 3 | 2)  # the clock id that glibc's clock_getcpuclockid returns


def memory(daemon: Daemon) -> float:
    """Return the resident memory in MiB."""
    return daemon.process.resident_bytes() / MIB
