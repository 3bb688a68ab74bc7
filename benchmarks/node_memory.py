"""`python -m benchmarks.node_memory` measures the memory of the daemon of the node profile, in a pod over TLS.

It has the profile's configuration and environment, but starts without a delay, and watches the pods of one node of a
simulated cluster. A kubelet's probes and a scrape come every few seconds. It runs from compiled modules, as in the
image. Nothing is asserted; the tables are for docs/performance.md.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import yaml

from benchmarks.measure import Server, pod_environment, serving
from tests.support.daemon import Daemon, config_file
from tools.manifests.files import DEPLOY, folder

NODE_NAME = "node-1"  # of the simulated pods
PODS = '{"resource": "pods", "rate": 2, "objects": 30, "size": "full"}'
CLUSTER = f'{{"cluster": {{"identity": true}}, "workload": [{PODS}]}}'
LOOK_SECONDS = 5.0
COMPILE_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
DEFAULTS = {"server": {}, "metrics": "basic", "clock": {}, "limits": {}}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "the profile `node`": {},
    "the same with the page": {"server": {"page": True}},
    "the defaults, for the same watch": DEFAULTS,
    "the defaults with docstrings": DEFAULTS,
}
LIBRARIES = (
    *("asyncio", "click", "msgspec", "structlog", "yaml", "aiohttp", "pydantic", "numpy", "uvloop", "uvicorn"),
    *("starlette.applications", "prometheus_client", "watchslo.app.run"),
    *("fastapi", "watchslo.serve.http"),  # only with the page
)
MEMORY = ("Rss", "Pss", "Anonymous")


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


@contextmanager
def compiled() -> Iterator[Mapping[str, str]]:
    """Yield the environment of the profile's pods, with a folder that keeps compiled modules."""
    profile = yaml.safe_load((DEPLOY / "chart/values.yaml").read_text())["profiles"]["node"]
    with TemporaryDirectory() as name:
        yield {"PYTHONPYCACHEPREFIX": name, "PYTHONDONTWRITEBYTECODE": "", "NODE_NAME": NODE_NAME, **profile["env"]}


@contextmanager
def running(server: Server, env: Mapping[str, str], changed: Mapping[str, Any]) -> Iterator[Daemon]:
    """Run the daemon of the profile with these keys changed, and yield it when it is ready."""
    keys = yaml.safe_load((DEPLOY / folder("node") / "watchslo.yaml").read_text()) | dict(changed)
    del keys["startDelay"]
    wrapper = [sys.executable, "-m", "benchmarks.pod", str(server.service_account)]
    with TemporaryDirectory() as name:
        config = config_file(Path(name), **keys)
        with Daemon(Path(name), "--config", config, env={**pod_environment(server), **env}, wrapper=wrapper) as daemon:
            daemon.until_ready(PATIENCE_SECONDS)
            yield daemon


def memory(pid: int) -> Iterator[float]:
    """Yield the parts of a process's memory in MiB; Pss counts a page that n processes share as 1/n."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
    return (kilobytes[part] / 1024 for part in MEMORY)


def daemons(env: Mapping[str, str], seconds: float) -> None:
    row("after", *MEMORY, "series", "a daemon with")
    row(*["---"] * 6)
    with serving("watchslo.sim", "--config", CLUSTER) as server:
        for name, changed in VARIANTS.items():
            used = dict(env, PYTHONOPTIMIZE="") if "docstrings" in name else env
            with running(server, used, changed):
                time.sleep(COMPILE_SECONDS)  # the first start compiles the modules, also those of its first evaluations
            with running(server, used, changed) as daemon:
                began = time.monotonic()
                while time.monotonic() < began + seconds:
                    series = sum(not line.startswith("#") for line in daemon.get("/metrics")[1].splitlines())
                    assert daemon.get("/healthz")[0] == daemon.get("/readyz")[0] == 200
                    time.sleep(LOOK_SECONDS)
                found = [f"{part:.1f} MiB" for part in memory(daemon.process.pid)]
                row(f"{time.monotonic() - began:.0f} s", *found, str(series), name)


IMPORTS = """
import sys
def memory():
    lines = [line.split() for line in open("/proc/self/smaps_rollup")]
    return [int(line[1]) / 1024 for line in lines if line[0] in ("Rss:", "Anonymous:")]
before = memory()
print("Python itself", *before, len(sys.modules))
sys.modules["rich"] = None  # as `run` does
for name in sys.argv[1:]:
    modules = len(sys.modules)
    __import__(name)
    now = memory()
    print(name, *(b - a for a, b in zip(before, now)), len(sys.modules) - modules)
    before = now
"""


def imports(env: Mapping[str, str]) -> None:
    """Print the memory that each library adds when it is imported after the preceding ones."""
    print()
    row("import", "Rss", "Anonymous", "modules")
    row(*["---"] * 4)
    command = [sys.executable, "-c", IMPORTS, *LIBRARIES]
    for _ in range(2):  # the first time compiles
        done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        *name, resident, anonymous, modules = line.split()
        row(" ".join(name), f"{float(resident):.1f} MiB", f"{float(anonymous):.1f} MiB", modules)


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long each daemon runs before it is measured.")
def main(seconds: float) -> None:
    with compiled() as env:
        daemons(env, seconds)
        imports(env)


if __name__ == "__main__":
    main()
