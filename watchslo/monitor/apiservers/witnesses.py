"""The witnesses: announced apiservers that are ticked on, but whose resources are not watched.

A tick waits for the same link to etcd as the watch cache of its apiserver, so the ticks of one apiserver cannot show
how late that link is. The ticks of the other apiservers can. A witness also sends its `Date`: without it, creation
timestamps that it wrote could not be compared with our clock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

import structlog

from watchslo.kube.apiservers import socket_of
from watchslo.model import SERVICE
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.snapshot import FailureReading, WitnessReading
from watchslo.watch.failure import Failure

MOST_WITNESSES = 8  # more than control planes have


class WitnessSet:
    """Finds the witnesses among the announced apiservers: those that answer and are not watched.

    `all` has them by name. There are none unless they are `wanted`. `service` returns the URL of the service, if it is
    known. `new_apiserver` returns the apiserver at a URL, and `look_at` asks an open one for its version; it returns
    the failure if there is no answer.
    """

    def __init__(
        self,
        service: Callable[[], str | None],
        new_apiserver: Callable[[str], Apiserver],
        look_at: Callable[[Apiserver], Awaitable[Failure | None]],
        *,
        wanted: bool,
    ) -> None:
        self.all: Mapping[str, Apiserver] = {}
        self._service = service
        self._new_apiserver = new_apiserver
        self._look_at = look_at
        self._wanted = wanted
        self._announced: int | None = None  # None while no witnesses are wanted
        self._log = structlog.get_logger()
        self._unknown = FailureLog(self._log)
        self._unreachable = FailureLog(self._log)

    @property
    def reading(self) -> WitnessReading | None:
        """How many are announced and how many answer; None if none are wanted."""
        if self._announced is None:
            return None
        failure = self._failure
        return WitnessReading(self._announced, len(self.all), failure.message if failure else None)

    @property
    def incomplete(self) -> bool:
        """Whether an announced apiserver does not answer, or the addresses cannot be read."""
        return self._failure is not None

    @property
    def _failure(self) -> FailureReading | None:
        return self._unreachable.now or self._unknown.now

    async def find(self, announced: tuple[str, ...] | Failure | None, members: Iterable[str]) -> None:
        """Find the witnesses among the `announced` URLs, None if these must not be asked.

        `members` are the names of the watched apiservers.
        """
        if not self._wanted or announced is None:
            self.all, self._announced = {}, None
        elif isinstance(announced, Failure):
            self._announced = self._announced or 0
            self._unknown.record("apiservers_unknown", announced)
        else:
            self._unknown.resolve()
            await self._find(unwatched(announced, members, self._service()))

    async def _find(self, urls: list[str]) -> None:
        answers = dict(zip(urls, await asyncio.gather(*(self._reach(url) for url in urls)), strict=True))
        found = {answer.name: answer for answer in answers.values() if isinstance(answer, Apiserver)}
        failures = {url: answer for url, answer in answers.items() if isinstance(answer, Failure)}
        if failures:
            first, *_ = failures.values()
            self._unreachable.record("witnesses_unreachable", first, addresses=[*failures])
        else:
            self._unreachable.resolve()
        if found.keys() != self.all.keys():
            self._log.info("witnesses", ticking=[*found])
        self.all, self._announced = found, len(urls)

    async def _reach(self, url: str) -> Apiserver | Failure:
        """Return the open apiserver at an address, or why it does not answer."""
        made = self._new_apiserver(url)
        if known := self.all.get(made.name):
            return await self._look_at(known) or known
        await made.open()
        answered = False
        try:
            failure = await self._look_at(made)
            answered = failure is None
            return failure or made
        finally:
            if not answered:
                await made.close()


def unwatched(announced: tuple[str, ...], members: Iterable[str], service: str | None) -> list[str]:
    """Return the URLs of the apiservers that are not members; `service` is the URL of the service, if it is known.

    The service leads to a single announced apiserver, and its URL may be that of one of several.
    """
    if SERVICE in members and len(announced) == 1:
        return []
    watched = {socket_of((service or "") if name == SERVICE else f"//{name}") for name in members}
    return [url for url in announced if socket_of(url) not in watched][:MOST_WITNESSES]
