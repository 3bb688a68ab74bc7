"""What the benchmarks have in common: servers and daemons as processes of their own, and what those cost."""

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
BLOCK_SECONDS = 5.0  # so often everything is evaluated
STARTS = {"requestsPerSecond": 200}  # so that a hundred watches need not be waited for

Watches = Sequence[Mapping[str, Any]]


def figure(what: str, value: float, unit: str, goal: str = "") -> None:
    """Prints one line of the report; `goal` is what the value should be."""
    number = f"{value:10.1f}" if value < 100 else f"{value:10,.0f}"
    print(f"  {what:<58}{number} {unit:<18}{goal}", flush=True)


@dataclass(frozen=True, slots=True)
class Server:
    """An apiserver of sorts, over TLS: a kubeconfig for it, and the folder of a service account."""

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
    """Runs a server module with a certificate of its own; it prints a line with its URL."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        authority = Authority(folder / "certificates")
        pair = authority.server("server")
        tls = ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
        with Process(folder, "server", [sys.executable, "-m", module, *arguments, *tls]) as process:
            process.until(lambda: "\n" in process.out, PATIENCE_SECONDS, "a URL")
            url = json.loads(process.out.splitlines()[0])["url"]
            kubeconfig, service_account = folder / "kubeconfig", folder / "serviceaccount"
            write_kubeconfig(kubeconfig, {"server": url, "certificate-authority": str(authority.ca)}, {})
            service_account.mkdir()
            (service_account / "token").write_text("token")
            (service_account / "ca.crt").write_bytes(authority.ca.read_bytes())
            yield Server(url, kubeconfig, service_account)


@contextmanager
def by_kubeconfig(kubeconfig: Path, watches: Watches) -> Iterator[Daemon]:
    """The daemon, once all its watches are open and their revisions dated."""
    with TemporaryDirectory() as name:
        config = config_file(Path(name), watch=list(watches), limits=STARTS)
        with Daemon(Path(name), "--config", config, "--kubeconfig", kubeconfig) as daemon:
            yield _measuring(daemon, watches)


@contextmanager
def in_pod(server: Server, watches: Watches) -> Iterator[Daemon]:
    """The same, with no other credentials than those of a pod."""
    address = urlsplit(server.url)
    env = outside(KUBERNETES_SERVICE_HOST=str(address.hostname), KUBERNETES_SERVICE_PORT=str(address.port))
    env["PYTHONPATH"] = str(Path.cwd())
    with TemporaryDirectory() as name:
        config = config_file(Path(name), watch=list(watches), limits=STARTS)
        wrapper = [sys.executable, "-m", "benchmarks.pod", str(server.service_account)]
        with Daemon(Path(name), "--config", config, env=env, wrapper=wrapper) as daemon:
            yield _measuring(daemon, watches)


def _measuring(daemon: Daemon, watches: Watches) -> Daemon:
    daemon.until_ready(PATIENCE_SECONDS)
    daemon.until_measuring(*(str(watch["name"]) for watch in watches), timeout=PATIENCE_SECONDS)
    return daemon


def cpu_seconds(process: Process) -> float:
    """What all its threads have used so far, to the nanosecond: /proc/PID/stat only knows hundredths of a second."""
    return time.clock_gettime(~process.pid << 3 | 2)  # as glibc's clock_getcpuclockid makes it


def memory(daemon: Daemon) -> float:
    """MiB that are resident."""
    return daemon.process.resident_bytes() / MIB


def until_evaluated(daemon: Daemon, events: int) -> None:
    """Waits until so many events have been counted since the start, as samples or as none."""

    def evaluated() -> bool:
        scrape = daemon.scrape()
        samples = scrape.total("watchslo_apiserver_timespan_seconds_count")
        return samples + scrape.total("watchslo_unmeasured_events_total") >= events

    daemon.process.until(evaluated, PATIENCE_SECONDS, f"{events} events evaluated", every=1.0)
