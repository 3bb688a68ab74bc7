"""`python -m benchmarks.footprint` measures what watchslo costs a real apiserver and its etcd.

The CPU is that of both processes, minus their CPU without any requests, measured in the same run. The cost of a tick is
measured at the rate of 5,000 nodes: at two ticks per second, idle wake-ups and background work are part of the figure,
and a tick seems to cost several times as much. Nothing is asserted; the tables are for docs/operations.md.
"""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

import click
import uvloop
import yaml

from benchmarks import daemonset
from benchmarks.measure import MIB, cpu_seconds
from benchmarks.ticks import Crowd, Tick
from tests.support import assets
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file
from tests.support.writer import configmap
from watchslo.config.model import ClockConfig
from watchslo.kube.client import RENEW_REQUESTS

NODES = 5_000
INTERVALS = (10.0, 30.0, 60.0)  # seconds between the ticks of a node
RATE = 500.0  # ticks per second of all nodes, at the shortest interval
DAY_SECONDS = 86_400.0
SETTLE_SECONDS = 8.0  # after a start, to prove memberships and to collect the garbage of the start
STARTED_SECONDS = 30.0  # until all default watches are open and proven, at ten requests per second
WATCHES, EVENTS = 100, 1_000  # watches that are open during so many writes
WRITERS = 8
WATCH_SECONDS = 450.0  # the average lifetime of a watch
SILENT = "silent"  # an account with requests that the audit policy leaves out
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"

# The usual audit policy for reads, and the rule that excludes watchslo.
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": [f"system:serviceaccount:default:{account}" for account in (SILENT, "nodes")]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:default"]},
        {"level": "None"},
    ],
}
NODE: Mapping[str, Any] = {
    "watch": [{"resource": "pods", "name": "my-node", "fieldSelector": "spec.nodeName=node-1"}],
    "clock": {"interval": "10s"},
    "limits": {"requestsPerSecond": 1, "resumesPerSecond": 1, "auditsPerSecond": 0.01},
    "metrics": "proven",
}
DEFAULT = {"events, JSON: the default": Tick()}
VARIANTS = {
    "events, PartialObjectMetadata": Tick(accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
    "events, Table": Tick(accept="application/json;as=Table;g=meta.k8s.io;v=v1"),
    "events, protobuf": Tick(accept="application/vnd.kubernetes.protobuf"),
    "events, limit=1": Tick(more=(("limit", "1"),)),
    "configmaps: cached, consistent": Tick(CONFIGMAPS),
    "leases: cached, consistent": Tick("/apis/coordination.k8s.io/v1/namespaces/default/leases"),
    "configmaps, resourceVersion=0: dates nothing": Tick(CONFIGMAPS, (("resourceVersion", "0"),)),
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
    """A control plane, its idle CPU (`idle`, in cores), and its audit log."""

    def __init__(self, plane: ControlPlane, log: Path, seconds: float) -> None:
        self.plane = plane
        self._log = log
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

    def lines(self, accounts: Sequence[str]) -> list[str]:
        """Return the lines of the audit log on these accounts."""
        users = [f"system:serviceaccount:default:{account}" for account in accounts]
        return [line for line in self._log.read_text().splitlines() if any(f'"{user}"' in line for user in users)]

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
        policy, log = folder / "policy.yaml", folder / "audit.log"
        policy.write_text(yaml.safe_dump(POLICY))
        log.touch()
        flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
        with Etcd(folder, found.etcd) as etcd, ControlPlane(folder, found.kube_apiserver, etcd, flags=flags) as plane:
            yield Plane(plane, log, seconds)


def row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def head(*cells: str) -> None:
    print()
    row(*cells)
    row(*("---" for _ in cells))


# --- profiles --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Count:
    """Counts the requests of daemons from its creation on."""

    daemons: Sequence[Daemon]
    began: float = field(default_factory=time.monotonic)
    before: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self.before = self._counted()

    @property
    def rates(self) -> tuple[float, float]:
        """The rates of all requests and of ticks, per second."""
        lasted = time.monotonic() - self.began
        requests, ticks = (now - before for now, before in zip(self._counted(), self.before, strict=True))
        return requests / lasted, ticks / lasted

    def _counted(self) -> tuple[float, float]:
        scrapes = [daemon.scrape() for daemon in self.daemons]
        return (
            sum(scrape.total("watchslo_api_requests_total") for scrape in scrapes),
            sum(scrape.total("watchslo_clock_ticks_total") for scrape in scrapes),
        )


def profile(on: Plane, name: str, accounts: Sequence[str], seconds: float) -> None:
    """Print the cost of daemons with the default configuration, on an otherwise idle cluster."""
    with ExitStack() as stack:
        daemons = [stack.enter_context(on.daemon(account, on.tokens(account, 1)[0])) for account in accounts]
        time.sleep(STARTED_SECONDS)
        before, count = len(on.lines(accounts)), Count(daemons)
        with on.measured() as cost:
            time.sleep(seconds)
        requests, ticks = count.rates
        lines = len(on.lines(accounts)) - before
    share = f"{100 * cost[0].both / seconds:.1f}%"
    row(name, f"{requests:.2f}", f"{ticks:.2f}", share, f"{lines / seconds * DAY_SECONDS:,.0f}")


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


async def ticks(on: Plane, tokens: Sequence[str], seconds: float, variants: Mapping[str, Tick]) -> None:
    """Print the cost of each variant of a tick, at the rate of thousands of nodes."""
    head("a tick", "apiserver", "etcd", f"at {RATE:g} per second", "round trip P50", "P99")
    async with crowd(on, tokens) as nodes:
        for name, tick in variants.items():
            with on.measured() as cost:
                await nodes.tick(tick, len(tokens) / RATE, seconds)
            refused = nodes.codes.total() - nodes.codes["200"]
            each = cost[0] * (1 / nodes.codes.total())
            if tick == Tick():
                on.tick = each
            times = quantiles(nodes.times, n=100)
            row(
                f"{name} ({refused} were refused)" if refused else name,
                f"{1000 * each.apiserver:.2f} ms",
                f"{1000 * each.etcd:.2f} ms",
                f"{RATE * each.both:.2f} cores",
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


def of_a_node(on: Plane, count: Count) -> None:
    """Print the requests of one node during the whole run, and the cost of all nodes."""
    requests, ticks = count.rates
    lines = len(on.lines(["node"])) / (time.monotonic() - count.began) * DAY_SECONDS
    share = f"{100 * requests * on.tick.both:.2f}%"
    row("node: its pods, ticks every 10 s", f"{requests:.3f}", f"{ticks:.3f}", share, f"{lines:,.0f}")
    (node,) = count.daemons
    busy = cpu_seconds(node.process) / (
        time.monotonic() - count.began
    )  # includes its start, so it is slightly too high
    head("an instance on a node, itself", "")
    row("memory, by kubeconfig", f"{node.process.resident_bytes() / MIB:.0f} MiB")
    row("CPU", f"{100 * busy:.1f}% of a core")
    total(on, requests - ticks)


@click.command()
@click.option("--seconds", default=60.0, help="The duration of each measurement.")
@click.option("--nodes", default=NODES, help="The number of ticking connections, each with its own token.")
@click.option("--variants", is_flag=True, help="Also measure other variants of a tick.")
def main(*, seconds: float, nodes: int, variants: bool) -> None:
    print(f"{os.cpu_count()} cores")
    with control_plane(seconds) as on:
        tokens = on.tokens("nodes", nodes)
        with on.daemon("node", on.tokens("node", 1)[0], **NODE) as node:
            count = Count([node])
            uvloop.run(ticks(on, tokens, seconds, DEFAULT))
            watches(on, seconds)
            head("profile", "requests per second", "ticks among them", "% of one core", "audit lines per day")
            profile(on, "control-plane: the defaults, idle cluster", ["one"], seconds)
            profile(on, "the same, with `level: None`", [SILENT], seconds)
            profile(on, "managed: two instances", ["two", "three"], seconds)
            of_a_node(on, count)
        if variants:
            uvloop.run(ticks(on, tokens, seconds, VARIANTS))
    head("control-plane: instances and apiservers", "requests per second at each apiserver", "ticks among them")
    for found in daemonset.requests_of(daemonset.SIZES, seconds):
        row(*found)


if __name__ == "__main__":
    main()
