"""Which programs are read, and which of our watches their caches are compared with."""

import asyncio
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial

from watchslo.config.model import Config
from watchslo.config.sections.client import ClientConfig
from watchslo.informer.delivered_runs import DeliveredRuns
from watchslo.informer.informed_client import InformedClient, OwnWatches, own_watches
from watchslo.informer.judgement import OwnWatch
from watchslo.informer.page import parse_informers
from watchslo.kube.call import Selectors
from watchslo.kube.credentials import CredentialSource
from watchslo.kube.page_client import processes_of
from watchslo.monitor.informers.client_reader import ClientReader
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import ClientReading

RESOLVE_SECONDS = 30.0  # between two looks at the addresses of a client, as a DNS server of a cluster caches them
MOST_PROCESSES = 16  # of a client
APISERVER = "kube-apiserver/"
"""How the name of an apiserver as a client begins; no configured name has a slash."""


class InformerSet:
    """Reads the configured clients, and compares the caches of these and of the apiservers with our watches.

    Each resource is compared with one watch of all its objects, which remembers what it delivers. It is replaced only
    if it ends. `is_current` says whether a watch is known to deliver in time.
    """

    def __init__(
        self,
        tasks: TaskSupervisor,
        credentials: CredentialSource,
        is_current: Callable[[MonitoredWatch], bool],
        random: Callable[[], float],
    ) -> None:
        self._tasks = tasks
        self._credentials = credentials
        self._is_current = is_current
        self._random = random
        self._followed: dict[str, ClientConfig] = {}
        self._readers: dict[str, ClientReader] = {}
        self._apiservers: dict[str, InformedClient] = {}
        self._hosts: dict[str, MonitoredWatch] = {}

    @property
    def tasks(self) -> list[Hashable]:
        """The names of the tasks that send requests."""
        return [("page", name) for name in self._readers]

    async def settle(self, config: Config, watches: Iterable[MonitoredWatch]) -> None:
        """Read exactly the configured clients, as long as anything is watched."""
        running = [*watches]
        wanted = {client.name: client for client in config.clients} if running else {}
        for name, client in [*self._followed.items()]:
            if wanted.get(name) != client:
                await self._tasks.stop(("client", name))
                await self._read(client, ())
                del self._followed[name]
        for name, client in wanted.items():
            if name not in self._followed:
                self._followed[name] = client
                self._tasks.start(("client", name), partial(self._follow, client))
        asked = {watch.identity.apiserver.name for watch in running}
        self._apiservers = {name: known for name, known in self._apiservers.items() if name in asked}
        self._host(running if wanted or config.kubernetes.apiserver_metrics else ())

    def take_of_apiserver(self, name: str, lines: Iterable[bytes], began: float, ended: float) -> None:
        """Take in what the page of an apiserver says of its own informers; before 1.37 it says nothing."""
        page = parse_informers(lines, began, ended)
        if page.stores:
            self._apiservers.setdefault(name, InformedClient(APISERVER + name)).add(page)

    def update(self) -> Generator[None, None, None]:
        """Judge the pages that the clocks have passed; pause after each cache."""
        watches, now = self._own_watches(), time.monotonic()
        for client in [*(reader.informed for reader in self._readers.values()), *self._apiservers.values()]:
            yield from client.settle(now, watches)

    def readings(self) -> Iterator[ClientReading]:
        """Yield what is known of each client."""
        now = time.monotonic()
        for reader in self._readers.values():
            yield reader.reading(now)
        for client in self._apiservers.values():
            yield client.reading(now)

    async def _follow(self, client: ClientConfig) -> None:
        """Read every process behind the URL of a client, until cancelled."""
        while True:
            found = (await processes_of(client.url))[:MOST_PROCESSES]
            await self._read(client, found if len(found) > 1 else (None,))
            await asyncio.sleep(RESOLVE_SECONDS)

    async def _read(self, client: ClientConfig, addresses: Sequence[str | None]) -> None:
        """Read exactly these processes of a client; None stands for the only one."""
        made = [ClientReader(client, address, self._credentials, self._random) for address in addresses]
        wanted = {reader.informed.name: reader for reader in made}
        for name, reader in [*self._readers.items()]:
            if reader.config == client and name not in wanted:
                await self._tasks.stop(("page", name))
                del self._readers[name]
        for name, reader in wanted.items():
            if name not in self._readers:
                self._readers[name] = reader
                self._tasks.start(("page", name), reader.run)

    def _host(self, watches: Iterable[MonitoredWatch]) -> None:
        """Let one watch of all objects of each resource remember what it delivers."""
        possible: dict[str, list[MonitoredWatch]] = {}
        for watch in watches:
            identity = watch.identity
            if identity.selectors == Selectors() and identity.namespace is None and not identity.replay:
                possible.setdefault(identity.resource.key, []).append(watch)
        known = {watch.identity: watch for watch in self._hosts.values()}
        self._hosts = {
            key: next((watch for watch in found if watch.identity in known), found[0])
            for key, found in possible.items()
        }
        for watch in self._hosts.values():
            if known.pop(watch.identity, None) is None:
                watch.session.deliveries.runs = _runs_from_now(watch)
        for watch in known.values():
            watch.session.deliveries.runs = None

    def _own_watches(self) -> OwnWatches:
        return own_watches(self._own(watch) for watch in self._hosts.values())

    def _own(self, watch: MonitoredWatch) -> OwnWatch:
        statistics, delivered = watch.statistics, watch.session.deliveries.runs
        assert delivered is not None
        domain = statistics.clock.domain
        horizon = domain.horizon if statistics.measured and self._is_current(watch) else None
        resource, threshold = watch.identity.resource, statistics.threshold
        return OwnWatch(resource, domain.name, delivered, threshold, horizon, domain.clock.measure)


def _runs_from_now(watch: MonitoredWatch) -> DeliveredRuns:
    """Return the record of what a watch delivers from now on; it may be open already."""
    runs = DeliveredRuns()
    if watch.session.up and watch.session.revision is not None:
        runs.begin(watch.session.revision)
    return runs
