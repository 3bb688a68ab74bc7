"""`python -m benchmarks.comeback --clientgo PATH`: how soon clients watch an apiserver again that comes back.

One of three apiservers that announce themselves is killed, and started again after 8 or 22 seconds. A daemon and a
client-go informer watch the same resource there, while another client writes ten times a second. Times are from when
the apiserver is ready until the watch of the daemon is open, and until the informer has received an event. It needs
root, for a network of its own.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import click

from tests.support import assets
from tests.support.background import repeated
from tests.support.control_plane import Apiserver, ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file
from tests.support.own_network import HOSTS, own_network
from tests.support.process import Process
from tests.support.writer import Writer, configmap

RESOURCE, CONFIGMAPS = "configmaps", "/api/v1/namespaces/default/configmaps"
WRITE_SECONDS, LOOK_SECONDS, SETTLED_SECONDS = 0.1, 0.1, 20.0


@click.command()
@click.option("--clientgo", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--repeats", default=5, show_default=True)
def main(clientgo: Path, repeats: int) -> None:
    """Print a table of seconds, median and worst."""
    print("| away for | watchslo | client-go informer |\n|---|---|---|")
    for away in (8.0, 22.0):
        found = [*_comebacks(clientgo, away, repeats)]
        cells = [f"{median(one):.1f} s, at most {max(one):.1f} s" for one in zip(*found, strict=True)]
        print(f"| {away:g} s | {cells[0]} | {cells[1]} |", flush=True)


def _comebacks(clientgo: Path, away: float, repeats: int) -> Iterator[tuple[float, float]]:
    """Yield the seconds of the daemon and of the informer, of each restart."""
    found = assets.newest(os.environ)
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(own_network(*HOSTS))
        etcd = stack.enter_context(Etcd(folder, found.etcd))
        plane = stack.enter_context(ControlPlane(folder, found.kube_apiserver, etcd, hosts=HOSTS))
        killed = plane.apiservers[1]
        kubeconfig = plane.kubeconfig("informer", server=killed.url)
        config = config_file(folder, watch=[{"resource": RESOURCE}], kubernetes={"apiservers": "each"})
        daemon = stack.enter_context(Daemon(folder, "--config", config, "--kubeconfig", plane.kubeconfig()))
        command = (clientgo, "--kubeconfig", kubeconfig, "--resource", RESOURCE, "--informer")
        informer = stack.enter_context(Process(folder, "informer", command))
        writer = stack.enter_context(plane.writer())
        writer.create(CONFIGMAPS, configmap("changed"))
        stack.enter_context(repeated(WRITE_SECONDS, partial(_change, writer)))
        for _ in range(repeats):
            time.sleep(SETTLED_SECONDS)
            yield _comeback(killed, away, daemon, informer)


def _change(writer: Writer) -> None:
    writer.patch(f"{CONFIGMAPS}/changed", {"metadata": {"annotations": {"at": str(time.time())}}})


def _comeback(killed: Apiserver, away: float, daemon: Daemon, informer: Process) -> tuple[float, float]:
    name = urlsplit(killed.url).netloc
    killed.process.kill()
    time.sleep(away)
    before = len(informer.out.splitlines())
    killed.start()
    killed.wait_ready()
    ready, ready_wall = time.monotonic(), time.time()
    daemon.process.until(lambda: _is_open(daemon, name), "open", LOOK_SECONDS)
    opened = time.monotonic() - ready
    informer.until(lambda: len(informer.out.splitlines()) > before, "received", LOOK_SECONDS)
    return opened, json.loads(informer.out.splitlines()[before])["at"] - ready_wall


def _is_open(daemon: Daemon, apiserver: str) -> bool:
    return any(one["up"] for one in daemon.status()["streams"] if one["apiserver"] == apiserver)


if __name__ == "__main__":
    main()
