"""`python -m benchmarks.footprint` measures what watchslo costs a real apiserver and its etcd.

The CPU is that of both processes, minus their CPU without any requests, measured in the same run. The cost of a tick is
measured at the rate of 5,000 nodes: at two ticks per second, idle wake-ups and background work are part of the figure,
and a tick seems to cost several times as much. Nothing is asserted; the tables are for docs/performance.md.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

import click
import uvloop

from benchmarks.measure import cpu_seconds
from benchmarks.ticks import Crowd
from tests.support import assets
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file
from tests.support.writer import configmap
from watchslo.config.sections.clock import ClockConfig
from watchslo.kube.connections import RENEW_REQUESTS

NODES = 5_000
INTERVALS = (10.0, 30.0, 60.0)  # seconds between the ticks of a node
RATE = 500.0  # ticks per second of all nodes, at the shortest interval
SETTLE_SECONDS = 8.0  # after a start, to prove memberships and to collect the garbage of the start
WATCHES, EVENTS = 100, 1_000  # watches that are open during so many writes
WRITERS = 8
WATCH_SECONDS = 450.0  # the average lifetime of a watch
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"

NODE: Mapping[str, Any] = {
    "watch": [{"resource": "pods", "name": "my-node", "fieldSelector": "spec.nodeName=node-1"}],
    "clock": {"interval": "10s"},
    "limits": {"requestsPerSecond": 1, "resumesPerSecond": 1, "auditsPerSecond": 0.01},
    "mode": "node",
}


@dataclass(frozen=True, slots=True)
class Cpu:
    """The CPU of an apiserver and of its etcd, in seconds or in cores."""

    apiserver: float
    etcd: float

    @property
    def both(self) -> float:
        return self.apiserver + self.etcd

    def __sub__(self, other: "Cpu") -> "Cpu":
        return Cpu(self.apiserver - other.apiserver, self.etcd - other.etcd)

    def __mul__(self, factor: float) -> "Cpu":
        return Cpu(self.apiserver * factor, self.etcd * factor)


class Plane:
    """A control plane, and its idle CPU (`idle`, in cores)."""

    def __init__(self, plane: ControlPlane, seconds: float) -> None:
        self.plane = plane
        time.sleep(SETTLE_SECONDS)
        began = self.spent()
        time.sleep(seconds)
        self.idle = (self.spent() - began) * (1 / seconds)
        self.tick = self.connection = Cpu(0.0, 0.0)  # CPU seconds of one, when measured

    def spent(self) -> Cpu:
        return Cpu(cpu_seconds(self.plane.apiservers[0].process), cpu_seconds(self.plane.etcd.process))

    @contextmanager
    def measured(self) -> Iterator[list[Cpu]]:
        """Append the CPU seconds spent in the context, minus the idle CPU, to the yielded list."""
        found: list[Cpu] = []
        before, began = self.spent(), time.monotonic()
        yield found
        found.append(self.spent() - before - self.idle * (time.monotonic() - began))

    def tokens(self, account: str, number: int) -> list[str]:
        """Return `number` tokens of an account that may read everything: each node has its own."""
        first = self.plane.service_account(account, EVERYTHING_READABLE)

        def some(share: int) -> list[str]:
            with self.plane.writer() as writer:
                return [writer.service_account_token("default", account) for _ in range(share)]

        with ThreadPoolExecutor(WRITERS) as pool:
            shares = pool.map(some, [(number - 1 + WRITERS - 1) // WRITERS] * WRITERS)
            return [first, *(token for share in shares for token in share)][:number]

    @contextmanager
    def daemon(self, account: str, token: str, **keys: Any) -> Iterator[Daemon]:
        with TemporaryDirectory() as name:
            folder = Path(name)
            config = config_file(folder, **keys)
            kubeconfig = self.plane.kubeconfig(account, {"token": token})
            with Daemon(folder, "--config", config, "--kubeconfig", kubeconfig) as daemon:
                daemon.until_ready()
                yield daemon


@contextmanager
def control_plane(seconds: float) -> Iterator[Plane]:
    with TemporaryDirectory() as name:
        folder, found = Path(name), assets.newest(os.environ)
        with Etcd(folder, found.etcd) as etcd, ControlPlane(folder, found.kube_apiserver, etcd) as plane:
            yield Plane(plane, seconds)


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def head(*cells: str) -> None:
    print()
    row(*cells)
    row(*("---" for _ in cells))


# --- watches ---------------------------------------------------------------------------------------------------------


def watches(on: Plane, seconds: float) -> None:
    """Print the cost of an open watch, and of an event for each watch that receives it."""
    named = [{"resource": "configmaps", "name": f"w{number}", "representation": "table"} for number in range(WATCHES)]
    limits = {"requestsPerSecond": 200, "auditsPerSecond": 0, "probesPerSecond": 0}
    _write(on, 0)
    with on.measured() as unwatched:
        _write(on, 1)
    (token,) = on.tokens("watching", 1)
    before = on.spent()
    with on.daemon("watching", token, watch=named, limits=limits):
        opening = on.spent() - before
        time.sleep(SETTLE_SECONDS)
        with on.measured() as open_:
            time.sleep(seconds)
        with on.measured() as watched:
            _write(on, 2)
    ticking = on.tick * (seconds / ClockConfig().interval)
    head("", "CPU, apiserver and etcd")
    row("start of one watch: its requests and its connection", f"{1000 * opening.both / WATCHES:.1f} ms")
    row("an open watch", f"{100 * (open_[0] - ticking).both / seconds / WATCHES:.4f}% of a core")
    per_event = (watched[0] - unwatched[0]).both / EVENTS / WATCHES
    row("an event of a configmap for each watch, Table", f"{1e6 * per_event:.0f} µs")


def _write(on: Plane, change: int) -> None:
    """Write EVENTS changes one after the other; `change` 0 creates the object instead."""
    with on.plane.writer() as writer:
        if not change:
            writer.create(CONFIGMAPS, configmap("footprint", 3_000))
            return
        for number in range(EVENTS):
            writer.patch(f"{CONFIGMAPS}/footprint", {"data": {"turn": f"{change}/{number}"}})


# --- ticks -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def crowd(on: Plane, tokens: Sequence[str]) -> AsyncIterator[Crowd]:
    """Connect all nodes, and yield them."""
    made = Crowd(on.plane.url, ssl.create_default_context(cafile=on.plane.ca), tokens)
    with on.measured() as cost:
        await made.connect()
    on.connection = cost[0] * (1 / len(tokens))
    await asyncio.sleep(SETTLE_SECONDS)
    yield made
    await made.close()


async def ticks(on: Plane, tokens: Sequence[str], seconds: float) -> None:
    """Print the cost of a tick, at the rate of thousands of nodes."""
    head("a tick", "apiserver", "etcd", f"at {RATE:g} per second", "round trip P50", "P99")
    async with crowd(on, tokens) as nodes:
        with on.measured() as cost:
            await nodes.tick(len(tokens) / RATE, seconds)
    on.tick = cost[0] * (1 / nodes.codes.total())
    times = quantiles(nodes.times, n=100)
    row(
        f"events; {nodes.codes.total() - nodes.codes['200']} were refused",
        f"{1000 * on.tick.apiserver:.2f} ms",
        f"{1000 * on.tick.etcd:.2f} ms",
        f"{RATE * on.tick.both:.2f} cores",
        f"{1000 * times[49]:.0f} ms",
        f"{1000 * times[98]:.0f} ms",
    )


def total(on: Plane, others: float) -> None:
    """Print the cost of all nodes; `others` are other requests per second and node, each at the cost of a tick."""
    head(f"{NODES:,} nodes, a tick every", "ticks per second", "ticks", "other requests", "TLS", "total")
    for interval in INTERVALS:
        connections = NODES * ((1 / interval + others) / RENEW_REQUESTS + 1 / WATCH_SECONDS)
        parts = [NODES / interval * on.tick.both, NODES * others * on.tick.both, connections * on.connection.both]
        row(
            f"{interval:g} s",
            f"{NODES / interval:.0f}",
            *(f"{part:.2f} cores" for part in parts),
            f"{sum(parts):.2f} cores",
        )


@click.command()
@click.option("--seconds", default=60.0, help="The duration of each measurement.")
@click.option("--nodes", default=NODES, help="The number of ticking connections, each with its own token.")
def main(seconds: float, nodes: int) -> None:
    print(f"{os.cpu_count()} cores")
    with control_plane(seconds) as on:
        tokens = on.tokens("nodes", nodes)
        with on.daemon("node", on.tokens("node", 1)[0], **NODE) as node:
            before, began = _counted(node), time.monotonic()
            uvloop.run(ticks(on, tokens, seconds))
            watches(on, seconds)
            lasted = time.monotonic() - began
            requests, own_ticks = ((now - then) / lasted for now, then in zip(_counted(node), before, strict=True))
        head("node: its pods, ticks every 10 s", "")
        row("requests per second", f"{requests:.3f}")
        row("ticks among them", f"{own_ticks:.3f}")
        total(on, requests - own_ticks)


def _counted(daemon: Daemon) -> tuple[float, float]:
    """Return the requests so far, and the ticks among them."""
    scrape = daemon.scrape()
    return scrape.total("watchslo_api_requests_total"), scrape.total("watchslo_clock_ticks_total")


if __name__ == "__main__":
    main()
