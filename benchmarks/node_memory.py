"""`python -m benchmarks.node_memory` measures the memory of the daemon of the node profile, in a pod over TLS.

It has the profile's configuration and environment, but starts without a delay, and watches the pods of one node of a
simulated cluster. A kubelet's probes and a scrape come every few seconds. It runs from compiled modules, as in the
image. As root, each daemon has a cgroup of its own, and the page cache is dropped before it starts, so that its working
set is what a kubelet shows for a pod. Nothing is asserted; the tables are for docs/performance.md.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import click
import yaml

from benchmarks.measure import Server, pod_environment, serving
from tests.support.daemon import Daemon, config_file
from tools.manifests.files import DEPLOY, folder
from watchslo.kube.connect import SERVICE_ACCOUNT

NODE_NAME = "node-1"  # of the simulated pods
PODS = '{"resource": "pods", "rate": 2, "objects": 30, "size": "full"}'
CLUSTER = f'{{"cluster": {{"identity": true}}, "workload": [{PODS}]}}'
LOOK_SECONDS = 5.0
COMPILE_SECONDS = 10.0
DEFAULTS = {"server": {}, "mode": "cluster", "clock": {}, "limits": {}}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "the profile `node`": {},
    "the same with the page": {"server": {"page": True}},
    "the defaults, for the same watch": DEFAULTS,
    "the defaults with docstrings": DEFAULTS,
}
MEMORY = ("Rss", "Pss", "Anonymous")
COMPILED = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONNODEBUGRANGES": "1"}
PROFILE_ENV: Mapping[str, str] = yaml.safe_load((DEPLOY / "chart/values.yaml").read_text())["profiles"]["node"]["env"]


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


@contextmanager
def compiled() -> Iterator[Mapping[str, str]]:
    """Yield an environment with a folder that keeps modules, which are compiled as in the image."""
    with TemporaryDirectory() as name:
        yield {**COMPILED, "PYTHONPYCACHEPREFIX": name, "NODE_NAME": NODE_NAME}


class Cgroup:
    """A memory cgroup, of version 1 or 2; without effect where this process may not create one."""

    def __init__(self) -> None:
        first = Path("/sys/fs/cgroup/memory")
        self._usage = "memory.usage_in_bytes" if first.is_dir() else "memory.current"
        self._folder = (first if first.is_dir() else Path("/sys/fs/cgroup")) / f"watchslo-{os.getpid()}"

    def __enter__(self) -> Self:
        with suppress(OSError):
            self._folder.mkdir()
            os.sync()
            Path("/proc/sys/vm/drop_caches").write_text("1")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._folder.rmdir()

    def wrapper(self) -> list[str]:
        """Return a command that runs the following one in this cgroup."""
        procs = self._folder / "cgroup.procs"
        return ["/bin/sh", "-c", f'echo $$ > {procs}; exec "$@"', "sh"] if procs.exists() else []

    def working_set(self) -> str:
        """Return what a kubelet would show: everything but the inactive page cache."""
        try:
            lines = (line.split() for line in (self._folder / "memory.stat").read_text().splitlines())
            statistics = {name: int(value) for name, value in lines}
            inactive = statistics.get("total_inactive_file", statistics["inactive_file"])
            return f"{(int((self._folder / self._usage).read_text()) - inactive) / 2**20:.1f} MiB"
        except OSError:
            return "-"


@contextmanager
def running(
    server: Server, env: Mapping[str, str], changed: Mapping[str, Any], within: Sequence[str] = ()
) -> Iterator[Daemon]:
    """Run the daemon of the profile with these keys changed, and yield it when it is ready."""
    keys = yaml.safe_load((DEPLOY / folder("node") / "watchslo.yaml").read_text()) | dict(changed)
    del keys["startDelay"]
    wrapper = [*within, sys.executable, "-m", "benchmarks.pod", str(server.service_account)]
    with TemporaryDirectory() as name:
        config = config_file(Path(name), **keys)
        with Daemon(Path(name), "--config", config, env={**pod_environment(server), **env}, wrapper=wrapper) as daemon:
            daemon.until_ready()
            yield daemon


def profile_env(service_account: Path) -> dict[str, str]:
    """Return the environment that the profile sets, with its service account in this folder."""
    return {name: value.replace(str(SERVICE_ACCOUNT), str(service_account)) for name, value in PROFILE_ENV.items()}


def memory(pid: int) -> Iterator[float]:
    """Yield the parts of a process's memory in MiB; Pss counts a page that n processes share as 1/n."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return (kilobytes[part] / 1024 for part in MEMORY)


def daemons(env: Mapping[str, str], seconds: float) -> None:
    row("after", *MEMORY, "working set", "series", "a daemon with")
    row(*["---"] * 7)
    with serving("watchslo.sim", "--config", CLUSTER) as server:
        for name, changed in VARIANTS.items():
            used = env if "docstrings" in name else {**env, **profile_env(server.service_account)}
            with running(server, used, changed):
                time.sleep(COMPILE_SECONDS)  # the first start compiles the modules, also those of its first evaluations
            with Cgroup() as cgroup, running(server, used, changed, cgroup.wrapper()) as daemon:
                began = time.monotonic()
                while time.monotonic() < began + seconds:
                    series = sum(not line.startswith("#") for line in daemon.get("/metrics")[1].splitlines())
                    assert daemon.get("/healthz")[0] == daemon.get("/readyz")[0] == 200
                    time.sleep(LOOK_SECONDS)
                found = [f"{part:.1f} MiB" for part in memory(daemon.process.pid)]
                row(f"{time.monotonic() - began:.0f} s", *found, cgroup.working_set(), str(series), name)


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long each daemon runs before it is measured.")
def main(seconds: float) -> None:
    with compiled() as env:
        daemons(env, seconds)


if __name__ == "__main__":
    main()
