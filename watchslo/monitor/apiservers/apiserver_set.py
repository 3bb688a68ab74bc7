"""The apiservers that are asked: the one behind the service, every announced one, or the configured ones."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Container, Iterable
from urllib.parse import urlsplit

import structlog

from watchslo.clock.offset import Dating, combine_datings
from watchslo.config.model import Config
from watchslo.kube.apiservers import TLS_NAME, socket_of
from watchslo.kube.credentials import Address, CredentialSource
from watchslo.kube.limiter import Limiters
from watchslo.model import SERVICE
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.cluster_name import ClusterName
from watchslo.monitor.apiservers.witnesses import WitnessSet
from watchslo.monitor.tasks.time_limit import with_time_limit
from watchslo.snapshot import ApiserverRole
from watchslo.watch.failure import Failure

VERSION_SECONDS = 8.0  # an apiserver that has not answered by then is not reachable from here


class ApiserverSet:
    """All apiservers that are, or may be, asked.

    `members` are the apiservers whose resources are watched, by name; there is always one. `service` is whatever
    answers at the address of the credentials, member or not; it is not asked if a member has that address. `witnesses`
    are only ticked on. `servers` is the number of apiservers of the cluster, if known, and `cluster_name` its name.
    `is_open` says whether they can be asked now. `changed` is called when the members or the witnesses change; an
    apiserver that has left stays open until `close_left`.
    """

    def __init__(
        self, config: Config, credentials: CredentialSource, limiters: Limiters, changed: Callable[[], None]
    ) -> None:
        self.service = Apiserver(SERVICE, credentials, limiters.of(SERVICE))
        self.members: dict[str, Apiserver] = {}
        self.servers: int | None = None
        self.is_open = False
        self.left_at = -math.inf  # when a member left last, in monotonic seconds
        self.witnesses = WitnessSet(
            lambda: credentials.url, self.new_apiserver, self._look_at, wanted=config.wants_witnesses
        )
        self._config = config.kubernetes
        self.cluster_name = ClusterName(config.cluster, credentials.context)
        self._storage = config.clock.storage
        self._credentials = credentials
        self._limiters = limiters
        self._changed = changed
        self._left: set[Apiserver] = set()
        self._front = 0
        self._log = structlog.get_logger()

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """The context, on the loop, within which the apiservers can be asked."""
        await self.service.open()
        if isinstance(self._config.apiservers, tuple):
            await self.watch_at(self._config.apiservers)
        else:
            self.members = {SERVICE: self.service}
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False
            for apiserver in {self.service, *self.all, *self._left}:
                await apiserver.close()
            await self._credentials.close()

    @property
    def credentials(self) -> CredentialSource:
        """The credentials that all of them share."""
        return self._credentials

    @property
    def all(self) -> tuple[Apiserver, ...]:
        """The members, the service and the witnesses."""
        return (*self._asked, *self.witnesses.all.values())

    @property
    def _asked(self) -> tuple[Apiserver, ...]:
        """The members and the service, unless its address is that of a member."""
        if self.is_direct([f"//{name}" for name in self.members if name != SERVICE]):
            return tuple(self.members.values())
        return tuple({SERVICE: self.service, **self.members}.values())

    def is_direct(self, urls: Iterable[str]) -> bool:
        """Return True if the address of the credentials is one of these, and so that of a single apiserver."""
        url = self._credentials.url
        return url is not None and socket_of(url) in map(socket_of, urls)

    @property
    def front(self) -> Apiserver:
        """The apiserver to send requests to that any of them can answer."""
        candidates = [*self.members.values()] if isinstance(self._config.apiservers, tuple) else [*self._asked]
        return candidates[self._front % len(candidates)]

    def role_of(self, apiserver: Apiserver) -> ApiserverRole:
        """Return what an apiserver of the set is asked for."""
        if apiserver.name in self.members:
            return ApiserverRole.MEMBER
        return ApiserverRole.SERVICE if apiserver is self.service else ApiserverRole.WITNESS

    def pass_on(self) -> None:
        """Use the next apiserver as `front`: the current one has failed."""
        self._front += 1

    @property
    def creators(self) -> Dating | None:
        """Converts creation timestamps to our monotonic clock, whichever apiserver stamped them.

        None if an apiserver of the cluster may be neither a member nor a witness. An address that may lead to several
        apiservers does not count: it may lead to a witness.
        """
        known = [
            apiserver for apiserver in (*self.members.values(), *self.witnesses.all.values()) if apiserver.peers == 1
        ]
        if self.servers is None or self.servers > len(known):
            return None
        return combine_datings([apiserver.dating for apiserver in known])

    def set_servers(self, servers: int | None) -> None:
        """Note how many apiservers the cluster has; None if that is not known."""
        self.servers = servers
        self.service.set_peers(servers)

    # Members

    def new_apiserver(self, url: str) -> Apiserver:
        """Return an apiserver at an address; it is neither open nor a member."""
        listed = isinstance(self._config.apiservers, tuple) and url in self._config.apiservers
        server_name = self._config.tls_server_name or (None if listed else TLS_NAME)
        name = urlsplit(url).netloc
        return Apiserver(name, self._credentials, self._limiters.of(name), Address(url, server_name))

    async def watch_at(self, urls: tuple[str, ...]) -> bool:
        """Make the apiservers at these addresses the members; return whether that changed them.

        Those that are members already stay the same objects. One without an address here stays while it `stays`.
        """
        members = {}
        for url in urls:
            name = urlsplit(url).netloc
            apiserver = self.members.get(name)
            if apiserver is None:
                apiserver = self.new_apiserver(url)
                await apiserver.open()
            apiserver.withdrawal = None
            members[name] = apiserver
        now = time.monotonic()
        others = {
            name: member for name, member in self.members.items() if name not in members and member is not self.service
        }
        members |= {name: other for name, other in others.items() if other.stays(now)}
        if members == self.members:
            return False
        self._become(members)
        return True

    def watch_service(self) -> None:
        """Make the service the only member."""
        if [*self.members.values()] != [self.service]:
            self._become({SERVICE: self.service})

    def _become(self, members: dict[str, Apiserver]) -> None:
        self._log.info("apiservers", watching=sorted(members))
        if left := {*self.members.values()} - {self.service, *members.values()}:
            self._left |= left
            self.left_at = time.monotonic()
        self.members = members
        self._changed()

    async def askable(self, announced: tuple[str, ...] | Failure) -> tuple[str, ...] | Failure | None:
        """Return the announced addresses that may be asked: None without verified TLS.

        Credentials must not be sent to an address that may belong to another server.
        """
        return announced if await self._credentials.are_verified() else None

    async def witness_at(self, announced: tuple[str, ...] | Failure | None) -> bool:
        """Make the announced apiservers that answer and are not members the witnesses; return True if they changed.

        `announced` is None if they must not be asked.
        """
        before = {*self.witnesses.all.values()}
        await self.witnesses.find(announced, self.members)
        now = {*self.witnesses.all.values()}
        self._left |= before - now
        if now != before:
            self._changed()
        return now != before

    async def close_left(self, used: Container[Apiserver]) -> None:
        """Close the apiservers that have left, except those that are still used."""
        for apiserver in [left for left in self._left if left not in used]:
            self._left.discard(apiserver)
            await apiserver.close()

    # Versions

    async def look(self) -> None:
        """Ask each member and the service for the version, all at once; one that is slow does not block the others."""
        await asyncio.gather(*(self._look_at(apiserver) for apiserver in self._asked))

    async def look_at_new(self) -> None:
        """Ask the members whose version is not known: without it, audits prove nothing."""
        await asyncio.gather(*(self._look_at(member) for member in self.members.values() if member.version is None))

    async def _look_at(self, apiserver: Apiserver) -> Failure | None:
        version = await with_time_limit(apiserver.client.version(), VERSION_SECONDS)
        if isinstance(version, Failure):
            return version
        apiserver.recognise(version, self._storage)
        return None
