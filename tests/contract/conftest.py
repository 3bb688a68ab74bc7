"""One suite for several apiservers: their differences are data, and the summary lists the tests left out."""

import asyncio
import contextlib
import functools
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import uvloop

from tests.contract.backend import BACKENDS, EVERY_VERSION, Backend
from tests.contract.cluster import (
    CONFIGMAPS,
    EVENTS,
    SIMULATED_TOKEN,
    Author,
    Cluster,
    RealCluster,
    SimulatedCluster,
    client_of,
    event,
    new_namespace,
)
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override
from tests.support.daemon import Proxy, Simulator
from tests.support.process import PATIENCE_SECONDS
from tests.support.writer import Writer
from watchslo.kube import client as kube_client
from watchslo.kube.client import Client
from watchslo.watch import machine

REFUSE_BEHIND = "ConsistentListFromCacheSkipTimeoutFallback=true"
_LEFT_OUT = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only(where, reason): the backends a test of the contract holds for, and why")
    config.stash[_LEFT_OUT] = {}


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the daemon runs on."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" not in metafunc.fixturenames:
        return
    chosen = list(chosen_backends(metafunc.config))
    marks = [mark.args for mark in metafunc.definition.iter_markers("only")]
    if "split_cluster" in metafunc.fixturenames:
        marks.append((lambda backend: not backend.simulated, "a simulated cluster has one etcd, with all its data"))
    for where, reason in marks:
        for backend in [one for one in chosen if not where(one)]:
            chosen.remove(backend)
            name = f"{metafunc.definition.name}[{backend}]"
            metafunc.config.stash[_LEFT_OUT].setdefault(reason, []).append(name)
    metafunc.parametrize("backend", chosen, ids=str, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what holds for none of the chosen backends; the summary lists it."""
    left_out = [item for item in items if item.name.endswith("[NOTSET]")]
    items[:] = [item for item in items if item not in left_out]
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def chosen_backends(config: pytest.Config) -> tuple[Backend, ...]:
    return EVERY_VERSION if config.getoption("--every-version") else BACKENDS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash[_LEFT_OUT]
    if left_out:
        terminalreporter.section("left out of the contract")
    for reason, names in sorted(left_out.items()):
        terminalreporter.write_line(f"{reason}:")
        for name in sorted(names):
            terminalreporter.write_line(f"  {name}")


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Cluster]]:
    """The simulated cluster, started at its first use."""
    with contextlib.ExitStack() as running:

        @functools.cache
        def start() -> Cluster:
            config = json.dumps({"cluster": {"token": SIMULATED_TOKEN}})
            folder = tmp_path_factory.mktemp("simulator")
            return SimulatedCluster(running.enter_context(Simulator(folder, "--config", config)))

        yield start


@pytest.fixture
def cluster(
    backend: Backend, simulator: Callable[[], Cluster], control_planes: Callable[[str], ControlPlane]
) -> Cluster:
    """The apiserver under test; those of one kind are shared by all tests."""
    if backend.simulated:
        return simulator()
    return RealCluster(backend, control_planes(backend.minor))


# A split cluster keeps events in a separate etcd, has a link to etcd that can be late for everything but leases, and
# has WatchList off. It is a second apiserver of the etcd of `cluster`, which is never late; no simulated one is split.

Split = tuple[ControlPlane, Proxy]


@pytest.fixture(scope="session")
def splits(
    control_planes: Callable[[str], ControlPlane],
    assets_of: Callable[[str], Assets],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Backend], Split]]:
    """Return a function that gives the split control plane of a backend, started at its first use."""
    with contextlib.ExitStack() as running:

        @functools.cache
        def start(backend: Backend) -> Split:
            minor = backend.minor
            first, found, folder = control_planes(minor), assets_of(minor), tmp_path_factory.mktemp(f"split-{minor}-")
            gates = ["WatchList=false", *([REFUSE_BEHIND] if backend.may_refuse_behind else [])]
            second = running.enter_context(Etcd(folder, found.etcd))
            link = running.enter_context(Proxy(folder, "link", first.etcd.url))
            flags = [
                override("/events", second.url),
                override("coordination.k8s.io/leases", first.etcd.url),
                f"--feature-gates={','.join(gates)}",
            ]
            plane = ControlPlane(folder, found.kube_apiserver, first.etcd, flags=flags, link=link.url)
            return running.enter_context(plane), link

        yield start


@pytest.fixture
def split_cluster(backend: Backend, splits: Callable[[Backend], Split]) -> RealCluster:
    return RealCluster(backend, *splits(backend))


@pytest.fixture
async def split_client(split_cluster: RealCluster) -> AsyncIterator[Client]:
    async with client_of(split_cluster.access()) as client:
        yield client


# Writers and clients


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthens the timeouts of the client: an apiserver with idle priority may be slow without a failure."""
    for name in ("CONNECT_SECONDS", "TICK_SECONDS", "OPEN_SECONDS", "OVERTIME_SECONDS", "METRICS_SECONDS"):
        monkeypatch.setattr(kube_client, name, PATIENCE_SECONDS)
    monkeypatch.setattr(machine, "SILENT_LIST_SECONDS", PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def fresh_name() -> Callable[[], str]:
    """Return a function that makes names which are unique in this session."""
    numbers = itertools.count(1)
    return lambda: f"contract-{next(numbers)}"


@pytest.fixture
def writer(cluster: Cluster) -> Iterator[Writer]:
    with cluster.writer() as writer:
        yield writer


@pytest.fixture
def namespace(writer: Writer, fresh_name: Callable[[], str]) -> str:
    """A new namespace for the test."""
    return new_namespace(writer, fresh_name())


@pytest.fixture
def author(writer: Writer, namespace: str) -> Author:
    """Writes config maps into the namespace of the test."""
    return Author(writer, CONFIGMAPS, namespace)


@pytest.fixture
def event_author(writer: Writer, namespace: str) -> Author:
    """Writes events into the namespace of the test: events have no watch cache."""
    return Author(writer, EVENTS, namespace, event(namespace))


@pytest.fixture(params=["author", "event_author"], ids=["cached", "uncached"])
def any_author(request: pytest.FixtureRequest) -> Author:
    """Writes config maps, then events: the test holds for cached and for uncached resources."""
    chosen: Author = request.getfixturevalue(request.param)
    return chosen


Dates = list[tuple[float, float, float]]


@pytest.fixture
def dates() -> Dates:
    """The `Date` of each answer that `client` got, and when its request was sent and answered."""
    return []


@pytest.fixture
async def client(cluster: Cluster, dates: Dates) -> AsyncIterator[Client]:
    async with client_of(cluster.access(), observe=lambda *date: dates.append(date)) as client:
        yield client


@pytest.fixture
def watches_end_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes machines request watches of so many seconds, instead of minutes."""

    def shorten(seconds: int) -> None:
        monkeypatch.setattr(machine, "SHORTEST_WATCH_SECONDS", seconds)
        monkeypatch.setattr(machine, "LONGEST_WATCH_SECONDS", seconds)

    return shorten
