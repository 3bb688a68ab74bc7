"""Which apiservers are watched: the one behind the service, every one that announces itself, or those that are listed.

What changes is told to `changed`; who runs the streams closes an apiserver that has left once nothing asks it any more.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import structlog

from watchslo.clock.offset import Dating, of_any
from watchslo.config import KubernetesConfig
from watchslo.kube.access import Address, Connection
from watchslo.kube.apiservers import LEASE_SECONDS, TLS_NAME, await_change, count_apiservers, read_addresses
from watchslo.kube.limiter import Limiter
from watchslo.model import SERVICE
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.trouble import Trouble
from watchslo.watch.failure import Action, Failure, Reason, because

FOLLOW_SECONDS = 30.0  # a bell rings when addresses change, but who rings it may be the one that is replaced
RETRY_SECONDS = 5.0
ANSWER_SECONDS = 20.0  # our own queue of requests may be long
REACH_SECONDS = 8.0  # one that has not answered by then is not where we can reach it

_T = TypeVar("_T")


class Fleet:
    """All apiservers that are, or may be, asked.

    `members` are those whose resources are watched, by name; never none. `service` is whoever answers at the address of
    the credentials, member or not. `servers` is how many apiservers the cluster has, where that is known. `settled`
    is set once they have been looked for. `storage` is what the configuration says of their storage. How many there
    are seldom changes: that is asked every `refresh` seconds. `is_open` says whether they can be asked.
    """

    def __init__(
        self,
        config: KubernetesConfig,
        storage: Literal["auto", "etcd", "unproven"],
        connection: Connection,
        limiter: Limiter,
        random: Callable[[], float],
        changed: Callable[[], None],
        refresh: float,
    ) -> None:
        self.settled = asyncio.Event()
        self.is_open = False
        self._config = config
        self._storage = storage
        self._connection = connection
        self._limiter = limiter
        self._random = random
        self._changed = changed
        self._refresh = refresh
        self.service = Apiserver(SERVICE, connection, limiter)
        self.members: dict[str, Apiserver] = {}
        self.servers: int | None = None
        self._left: set[Apiserver] = set()
        self._front = 0
        self._known: tuple[str, ...] = ()
        self._count_at = 0.0
        self._left_at = -math.inf  # when the last one did
        self._hidden = False
        self._log = structlog.get_logger()
        self._addresses = Trouble(self._log)
        self._leases = Trouble(self._log)
        self._bell = Trouble(self._log)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """The context, on the loop, within which they can be asked."""
        await self.service.open()
        if isinstance(self._config.apiservers, tuple):
            await self._watch_at(self._config.apiservers)
        else:
            self.members = {SERVICE: self.service}
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False
            for apiserver in {*self.all, *self._left}:
                await apiserver.close()
            await self._connection.close()

    async def dismiss(self, apiserver: Apiserver) -> None:
        """Nobody asks it any more: one that has left is closed."""
        if apiserver in self._left:
            self._left.discard(apiserver)
            await apiserver.close()

    @property
    def all(self) -> tuple[Apiserver, ...]:
        """The members, and the service."""
        return tuple({SERVICE: self.service, **self.members}.values())

    @property
    def front(self) -> Apiserver:
        """Who is asked what any of them can answer."""
        candidates = [*self.members.values()] if isinstance(self._config.apiservers, tuple) else [*self.all]
        return candidates[self._front % len(candidates)]

    def pass_on(self) -> None:
        """The one in front has failed: the next one is asked from now on."""
        self._front += 1

    @property
    def creators(self) -> Dating | None:
        """What the clocks of all that may stamp creations are on our monotonic one.

        Unknown while one of them is not among those that we ask.
        """
        if self.servers is None or self.servers > len(self.members):
            return None
        return of_any([apiserver.dating for apiserver in self.members.values()])

    # Finding them

    async def run(self) -> None:
        """Follows the apiservers as they come and go, until cancelled."""
        while True:
            jitter = 0.9 + 0.2 * self._random()
            client = self.front.client
            found = await _soon(read_addresses(client))
            if self._config.apiservers == "each":
                await self._follow(found)
            self.settled.set()
            if time.monotonic() >= self._count_at:
                self._count_at = time.monotonic() + self._refresh * jitter
                await self._count(() if isinstance(found, Failure) else found)
            if self._config.apiservers != "each" or (isinstance(found, Failure) and found.action is Action.WAIT):
                await asyncio.sleep(self._refresh * jitter)
            elif isinstance(found, Failure):
                self.pass_on()
                await asyncio.sleep(RETRY_SECONDS * jitter)
            else:
                deaf = await await_change(client, FOLLOW_SECONDS * jitter, self._known)
                if deaf and deaf.action is Action.WAIT:  # else it is in trouble that shows elsewhere
                    self._bell.happened("apiservers_unwatched", deaf)
                else:
                    self._bell.over()

    async def _follow(self, found: tuple[str, ...] | Failure) -> None:
        """Watches every address that is announced, once any one of them can be reached from here."""
        if isinstance(found, Failure):
            self._addresses.happened("apiservers_unknown", found)
            return
        self._addresses.over()
        is_watching_each = SERVICE not in self.members
        if not found or found == (self._known if is_watching_each else ()):
            self._known = found
            return
        if is_watching_each or await self._reaches_any(found):
            await self._watch_at(found)
        elif found != self._known:
            self._log.warning("apiservers_unreachable", addresses=len(found), watching=SERVICE)
        self._known = found

    async def _reaches_any(self, urls: tuple[str, ...]) -> bool:
        """Whether one of them answers; from outside of a cluster they seldom can be reached."""
        tried = [self._apiserver(url) for url in urls]
        answers = [asyncio.create_task(_answers(apiserver)) for apiserver in tried]
        try:
            for answer in asyncio.as_completed(answers, timeout=REACH_SECONDS):
                if await answer:
                    return True
        except TimeoutError:
            pass
        finally:
            for waiting in answers:
                waiting.cancel()
            await asyncio.gather(*answers, return_exceptions=True)
        return False

    async def _watch_at(self, urls: tuple[str, ...]) -> None:
        """Makes members of those at these addresses; who was one before stays who it was."""
        members = {}
        for url in urls:
            name = urlsplit(url).netloc
            apiserver = self.members.get(name)
            if apiserver is None:
                apiserver = self._apiserver(url)
                await apiserver.open()
            members[name] = apiserver
        self._log.info("apiservers", watching=sorted(members))
        if left := {*self.members.values()} - {self.service, *members.values()}:
            self._left |= left
            self._left_at = time.monotonic()
        self.members = members
        self._count_at = 0.0  # there may be more of them, or fewer
        self._changed()

    def _apiserver(self, url: str) -> Apiserver:
        server_name = self._config.tls_server_name or (TLS_NAME if self._config.apiservers == "each" else None)
        return Apiserver(urlsplit(url).netloc, self._connection, self._limiter, Address(url, server_name))

    async def _count(self, announced: tuple[str, ...]) -> None:
        """Learns how many apiservers there are: by the leases they keep, or else by their addresses."""
        leases = await _soon(count_apiservers(self.front.client))
        if isinstance(leases, Failure):
            self._leases.happened("apiservers_uncounted", leases)
            leases = None
        else:
            self._leases.over()
        self.servers = max(leases or 0, len(announced)) or None  # where none announces itself, none is known
        self.service.peers = self.servers
        each = {name: apiserver for name, apiserver in self.members.items() if name != SERVICE}
        more = self.servers is not None and bool(each) and self.servers > len(each) and not self._is_of(announced)
        self._judge(more=more, addresses=len(each))
        mixed = self._hidden and self._config.apiservers == "each"  # else it may be that not all are listed
        for apiserver in each.values():
            apiserver.mixed = mixed
            apiserver.peers = self.servers if mixed and len(each) == 1 else None if more else self.servers and 1

    def _is_of(self, announced: tuple[str, ...]) -> bool:
        """Whether those that are listed are among several that are announced: then each is a single apiserver."""
        urls = self._config.apiservers
        return isinstance(urls, tuple) and len(announced) > 1 and {*urls} <= {*announced}

    def _judge(self, *, more: bool, addresses: int) -> None:
        """Says that addresses hide apiservers, unless that may be the lease of one that has left."""
        now = time.monotonic()
        hidden = more and now >= self._left_at + LEASE_SECONDS
        if more and not (hidden and self._hidden):
            self._count_at = now + LEASE_SECONDS
        if hidden and not self._hidden:
            self._log.warning("apiservers_hidden", addresses=addresses, apiservers=self.servers)
        self._hidden = hidden

    # What they are

    async def look(self) -> None:
        """Asks each for its version, all at once; one that does not answer holds up the others for a moment only."""
        await asyncio.gather(*(self._look_at(apiserver) for apiserver in self.all))

    async def _look_at(self, apiserver: Apiserver) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REACH_SECONDS):
                version = await apiserver.client.version()
                if not isinstance(version, Failure):
                    apiserver.recognise(version, self._storage)


async def _soon(answer: Awaitable[_T | Failure]) -> _T | Failure:
    """An answer that is short: who has none by now is to hold up nobody."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await answer
    except TimeoutError:
        return because(Reason.TIMEOUT)


async def _answers(apiserver: Apiserver) -> bool:
    await apiserver.open()
    try:
        return not isinstance(await apiserver.client.version(), Failure)
    finally:
        await apiserver.close()
