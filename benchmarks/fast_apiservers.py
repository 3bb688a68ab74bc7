"""The Go program in benchmarks/fastapiserver as a process, and a daemon that watches all its resources."""

import json
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import PATIENCE_SECONDS
from tests.support.certs import Authority
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, config_file
from tests.support.process import Process

FAST_START = 500  # requests per second until all watches are measured; then the default limit applies


class FastApiservers:
    """Several apiservers on one storage that send every event at once. `urls` has their addresses.

    `resources` is the number of resources, each of which the daemon can watch at each apiserver. With `pods`, the steps
    of a pod as JSON, there are pods too.
    """

    def __init__(self, folder: Path, program: Path, apiservers: int, resources: int, pods: bytes | None = None) -> None:
        self.resources = resources
        self.watches = apiservers * (resources + (pods is not None))
        self.kubeconfig = folder / "kubeconfig"
        self._authority = Authority(folder / "certificates")
        pair = self._authority.server("apiserver")
        tls: list[str | Path] = ["--tls-cert", pair.certificate, "--tls-key", pair.key]
        sizes = ["--apiservers", str(apiservers), "--resources", str(resources)]
        if pods is not None:
            steps = folder / "pods.json"
            steps.write_bytes(pods)
            sizes += ["--pods", str(steps)]
        self.process = Process(folder, "apiservers", [program, *tls, *sizes])

    def start(self) -> None:
        """Start the program; a Process stops it."""
        self.process.start()
        self.process.until(lambda: "\n" in self.process.out, "URLs")
        announced = json.loads(self.process.out.splitlines()[0])
        self.urls: list[str] = announced["urls"]
        self._control: str = announced["control"]
        cluster = {"server": self.urls[0], "certificate-authority": str(self._authority.ca)}
        write_kubeconfig(self.kubeconfig, cluster, {})

    def set_rate(self, events: float) -> None:
        """Commit so many events per second from now on; each apiserver sends all of them."""
        self._post(f"/rate?events={events}")

    def burst(self, events: int) -> None:
        """Commit so many events of each resource at once."""
        self._post(f"/burst?events={events}")

    def start_pods(self, starts: float) -> None:
        """Let so many pods start per second from now on."""
        self._post(f"/pods?starts={starts}")

    def cut(self) -> None:
        """Reset the connections of all open watches."""
        self._post("/cut")

    def reset_statistics(self) -> None:
        self._post("/reset")

    def statistics(self) -> Any:
        with urllib.request.urlopen(f"{self._control}/statistics", timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)

    def _post(self, path: str) -> None:
        request = urllib.request.Request(self._control + path, b"", method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            answer.read()


@contextmanager
def fast_apiservers(
    program: Path, apiservers: int, resources: int, pods: bytes | None = None
) -> Iterator[FastApiservers]:
    """Run the program while the context is open."""
    with TemporaryDirectory() as name:
        served = FastApiservers(Path(name), program, apiservers, resources, pods)
        try:
            served.start()
            yield served
        finally:
            served.process.stop()


@contextmanager
def watching_all(served: FastApiservers, wrapper: Sequence[str | Path] = (), **settings: object) -> Iterator[Daemon]:
    """Run a daemon that watches every resource at every apiserver; yield it when all its watches are measured.

    It starts faster than the default limit of requests permits, and then has that limit. `wrapper` is a command before
    its own, and `settings` are further keys of its configuration.
    """
    watched = {"kubernetes": {"apiservers": served.urls}, "watch": [{"resource": "*"}], **settings}
    limits = {"watches": served.watches}
    with TemporaryDirectory() as name:
        folder = Path(name)
        config = config_file(folder, **watched, limits=limits | {"requestsPerSecond": FAST_START})
        with Daemon(folder, "--config", config, "--kubeconfig", served.kubeconfig, wrapper=wrapper) as daemon:
            daemon.process.until(lambda: _are_members(daemon.status(), served.watches), "members", every=1.0)
            config_file(folder, **watched, limits=limits)
            daemon.until_said("config_reloaded")
            yield daemon


def _are_members(status: Any, watches: int) -> bool:
    """Return whether all watches are measured, except those of other shards."""
    measured = sum(stream["up"] and stream["membership"] == "member" for stream in status["watches"])
    return bool(measured) and measured == watches - status["monitor"]["shard"]["elsewhere"]
