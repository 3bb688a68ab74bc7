"""Asks all instances of a cluster for their status, round by round, and keeps the newest status of each."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from watchslo.api.part import UnreadableError, decode
from watchslo.api.status import StatusDocument
from watchslo.app.http_endpoint import address_of
from watchslo.app.status_client import UNREADABLE, DaemonAddress, StatusClient
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.resolution import resolve
from watchslo.overview.merge import InstanceAnswer, Overview, merge

AT_ONCE = 20  # instances; with MOST_INSTANCES, a round in which none answers takes 50 s
MOST_INSTANCES = 200
DEFAULT_PORTS = {"http": 80, "https": 443}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name; raises OSError."""


@dataclass(frozen=True, slots=True)
class InstanceService:
    """A URL whose host has the addresses of many instances, such as a headless Service."""

    url: str

    async def addresses(self, resolve: Resolve) -> list[DaemonAddress]:
        """Return the address of each instance; raises OSError."""
        parts = urlsplit(self.url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]
        found = await resolve(host, port)
        bracketed = (f"[{address}]" if ":" in address else address for address in found)
        return [DaemonAddress(f"{parts.scheme}://{address}:{port}{parts.path}", host) for address in bracketed]


@dataclass(frozen=True, slots=True)
class KnownStatus:
    """The newest status of an instance: received at a monotonic time, when it was already `age` seconds old."""

    status: StatusDocument
    received: float
    age: float


class Instances:
    """Owns the newest status of each instance, also while it does not answer; forgets instances that have left."""

    def __init__(
        self,
        urls: Iterable[str],
        services: Iterable[str],
        client: StatusClient,
        resolve: Resolve = resolve,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raise ConfigError if there is no URL, or if one cannot be used."""
        self._fixed = [DaemonAddress(address_of(url)) for url in urls]
        self._services = [InstanceService(address_of(url)) for url in services]
        if not (self._fixed or self._services):
            raise ConfigError(
                "there is no instance; add the URLs of all, or --service with a name that has all addresses"
            )
        self._client = client
        self._resolve = resolve
        self._clock = clock
        self._resolved: dict[InstanceService, list[DaemonAddress]] = {}
        self._known: dict[str, KnownStatus] = {}

    async def ask(self) -> Overview:
        """Ask every instance once, and return all of them as one."""
        obstacles = [text for service in self._services if (text := await self._look_up(service))]
        found = [*self._fixed, *(address for addresses in self._resolved.values() for address in addresses)]
        addresses = {address.url: address for address in found}
        if len(addresses) > MOST_INSTANCES:
            obstacles.append(f"Cannot tell for all {len(addresses)} instances: only {MOST_INSTANCES} are asked.")
        asked = [*addresses.values()][:MOST_INSTANCES]
        turns = asyncio.Semaphore(AT_ONCE)
        failures = await asyncio.gather(*(self._ask(address, turns) for address in asked))
        self._known = {url: known for url, known in self._known.items() if url in addresses}
        answers = [self._answer(address.url, why) for address, why in zip(asked, failures, strict=True)]
        return merge(answers, obstacles, time.time())

    async def _look_up(self, service: InstanceService) -> str:
        """Look up the addresses of a service; return why that is impossible. The former addresses then stay."""
        name = urlsplit(service.url).hostname
        try:
            self._resolved[service] = await service.addresses(self._resolve)
        except TimeoutError:
            return f"Cannot tell for all instances: no DNS server has answered for {name}."
        except (OSError, UnicodeError):  # the latter for labels of wrong lengths
            return f"Cannot tell for all instances: {name} does not resolve; check the name."
        return "" if self._resolved[service] else f"Cannot tell for all instances: {name} has no address."

    async def _ask(self, address: DaemonAddress, turns: asyncio.Semaphore) -> str | None:
        """Ask an instance and keep its status; return why it has none."""
        async with turns:
            try:
                answer = await self._client.read(address)
                status = decode(answer.body, StatusDocument)
            except ConnectError as error:
                return str(error)
            except UnreadableError:
                return UNREADABLE
        sent = status.at.timestamp() if answer.sent_wall is None else answer.sent_wall  # both are of the same clock
        self._known[address.url] = KnownStatus(status, self._clock(), max(0.0, sent - status.at.timestamp()))
        return None

    def _answer(self, url: str, failure: str | None) -> InstanceAnswer:
        known = self._known.get(url)
        if known is None:
            return InstanceAnswer(url, failure=failure)
        return InstanceAnswer(url, known.status, known.age + self._clock() - known.received, failure)
