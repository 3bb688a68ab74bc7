"""Shared parts of the benchmarks: servers and daemons as processes of their own, and their CPU and memory."""

import json
import ssl
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from tests.support.certs import Authority
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, config_file, outside
from tests.support.process import Process

MIB = 2**20
PATIENCE_SECONDS = 120.0
BLOCK_SECONDS = 5.0  # the time between two evaluations of all watches
STARTS = {"requestsPerSecond": 200}  # so that a hundred watches open quickly

Watches = Sequence[Mapping[str, Any]]


def figure(what: str, value: float, unit: str, goal: str = "") -> None:
    """Print one line of the report; `goal` describes the expected value."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    print(f"  {what:<58}{value:10,.{digits}f} {unit:<18}{goal}", flush=True)


@dataclass(frozen=True, slots=True)
class Server:
    """A simulated apiserver over TLS, with a kubeconfig for it and the folder of a service account."""

    url: str
    kubeconfig: Path
    service_account: Path

    def post(self, path: str, body: object = None) -> None:
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode(), method="POST")
        context = ssl.create_default_context(cafile=str(self.service_account / "ca.crt"))
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE_SECONDS) as answer:
            answer.read()


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
            kubeconfig, service_account = folder / "kubeconfig", folder / "serviceaccount"
            write_kubeconfig(kubeconfig, {"server": url, "certificate-authority": str(authority.ca)}, {})
            service_account.mkdir()
            (service_account / "token").write_text("token")
            (service_account / "ca.crt").write_bytes(authority.ca.read_bytes())
            yield Server(url, kubeconfig, service_account)


@contextmanager
def with_kubeconfig(kubeconfig: Path, watches: Watches) -> Iterator[Daemon]:
    """Run the daemon with a kubeconfig, and yield it when all its watches are open and measured."""
    with TemporaryDirectory() as name:
        config = config_file(Path(name), watch=list(watches), limits=STARTS)
        with Daemon(Path(name), "--config", config, "--kubeconfig", kubeconfig) as daemon:
            yield _measuring(daemon, watches)


@contextmanager
def in_pod(server: Server, watches: Watches) -> Iterator[Daemon]:
    """Do the same as `with_kubeconfig`, with only the credentials of a pod."""
    with TemporaryDirectory() as name:
        config = config_file(Path(name), watch=list(watches), limits=STARTS)
        wrapper = [sys.executable, "-m", "benchmarks.pod", str(server.service_account)]
        with Daemon(Path(name), "--config", config, env=pod_environment(server), wrapper=wrapper) as daemon:
            yield _measuring(daemon, watches)


def pod_environment(server: Server) -> dict[str, str]:
    """Return the environment of a pod in the server's cluster, for `benchmarks.pod`."""
    address = urlsplit(server.url)
    return outside(
        KUBERNETES_SERVICE_HOST=str(address.hostname),
        KUBERNETES_SERVICE_PORT=str(address.port),
        PYTHONPATH=str(Path.cwd()),
    )


def _measuring(daemon: Daemon, watches: Watches) -> Daemon:
    daemon.until_ready()
    daemon.until_measuring(*(str(watch["name"]) for watch in watches))
    return daemon


def cpu_seconds(process: Process) -> float:
    """Return the CPU time of all its threads, to the nanosecond: /proc/PID/stat has only hundredths of a second."""
    return time.clock_gettime(~process.pid << 3 | 2)  # the clock id that glibc's clock_getcpuclockid returns


def memory(daemon: Daemon) -> float:
    """Return the resident memory in MiB."""
    return daemon.process.resident_bytes() / MIB


def until_evaluated(daemon: Daemon, events: int) -> None:
    """Wait until this many events since the start are evaluated, as samples or as unmeasured."""

    def evaluated() -> bool:
        scrape = daemon.scrape()
        samples = scrape.total("watchslo_apiserver_timespan_seconds_count")
        return samples + scrape.total("watchslo_unmeasured_events_total") >= events

    daemon.process.until(evaluated, f"{events} events evaluated", every=1.0)
