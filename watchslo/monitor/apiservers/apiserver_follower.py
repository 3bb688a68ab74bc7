"""Follows the apiservers as they come and go."""

import asyncio
import time
from collections.abc import Callable

import structlog

from watchslo.config.sections.kubernetes import KubernetesConfig
from watchslo.kube.apiservers import LEASE_SECONDS, MOST_ADDRESSES, await_change, read_addresses
from watchslo.model import SERVICE
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.apiserver_count import ApiserverCount
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.monitor.tasks.time_limit import with_time_limit
from watchslo.watch.failure import Action, Failure
from watchslo.watch.missing_right import MissingRight

FOLLOW_SECONDS = 30.0  # a watch reports new addresses, but the apiserver that serves it may be the replaced one
RETRY_SECONDS = 5.0
RETRY_WITNESSES_SECONDS = 60.0
REACH_SECONDS = 8.0  # an apiserver that has not answered by then is not reachable from here


class ApiserverFollower:
    """Reads the announced addresses and makes their apiservers the members of `apiservers`, or its witnesses.

    It owns the addresses it has seen last. `settled` is set once the members have been looked for. Unless each
    apiserver is to be watched, the addresses are read only every `refresh` seconds, or sooner to reach a witness.
    """

    def __init__(
        self, config: KubernetesConfig, apiservers: ApiserverSet, refresh: float, random: Callable[[], float]
    ) -> None:
        self.settled = asyncio.Event()
        self._config = config
        self._apiservers = apiservers
        self._refresh = refresh
        self._random = random
        self._count = ApiserverCount(config, apiservers, refresh)
        self._known: tuple[str, ...] = ()
        self._is_unverified = False  # whether the announced addresses must not be asked
        self._log = structlog.get_logger()
        self._address_failures = FailureLog(self._log)
        self._watch_failures = FailureLog(self._log)
        self._right = MissingRight()

    async def run(self) -> None:
        """Follow the apiservers until cancelled."""
        while True:
            jitter = 0.9 + 0.2 * self._random()
            client = self._apiservers.front.client
            found = await with_time_limit(read_addresses(client))
            askable = await self._apiservers.askable(found)
            if self._config.apiservers == "each":
                await self._follow(askable)
            self.settled.set()
            if await self._apiservers.witness_at(askable):
                self._count.count_soon()
            await self._count.count_if_due(() if isinstance(found, Failure) else found, jitter)
            await self._apiservers.cluster_name.find(client)
            if self._config.apiservers != "each" or askable is None or self._is_refused(found):
                await asyncio.sleep(jitter * self._spacing)
            elif isinstance(found, Failure):
                self._apiservers.pass_on()
                await asyncio.sleep(RETRY_SECONDS * jitter)
            else:
                failure = await await_change(client, FOLLOW_SECONDS * jitter, self._known)
                if failure and failure.action is Action.WAIT:  # other failures show elsewhere
                    self._watch_failures.record("apiservers_unwatched", failure)
                else:
                    self._watch_failures.resolve()

    def _is_refused(self, found: tuple[str, ...] | Failure) -> bool:
        """Return True if the addresses may not be read, so that it is useless to ask again soon."""
        if isinstance(found, Failure):
            return self._right.is_proven(found, time.monotonic())
        self._right.resolve()
        return False

    @property
    def _spacing(self) -> float:
        """Seconds until the addresses are read again."""
        retries = [RETRY_WITNESSES_SECONDS] if self._apiservers.witnesses.incomplete else []
        retries += [LEASE_SECONDS] if self._count.is_expected else []
        return min([self._refresh, *retries])

    async def _follow(self, found: tuple[str, ...] | Failure | None) -> None:
        """Watch at every announced address, once one of them can be reached from here; None if none may be asked."""
        if (found is None) != self._is_unverified:
            self._is_unverified = found is None
            if self._is_unverified:
                self._log.warning("apiservers_unverified", watching=SERVICE)
        if found is None:
            self._apiservers.watch_service()
            return
        if isinstance(found, Failure):
            self._address_failures.record("apiservers_unknown", found)
            return
        self._address_failures.resolve()
        if len(found) == MOST_ADDRESSES and found != self._known:
            self._log.warning("apiservers_limited", addresses=MOST_ADDRESSES)
        is_watching_each = SERVICE not in self._apiservers.members
        if found and (is_watching_each or await self._reaches_any(found)):
            if await self._apiservers.watch_at(found):
                self._count.count_soon()
            if self.settled.is_set():  # before, all of them are asked anyway
                await self._apiservers.look_at_new()
        elif found and found != self._known:
            self._log.warning("apiservers_unreachable", addresses=len(found), watching=SERVICE)
        self._known = found

    async def _reaches_any(self, urls: tuple[str, ...]) -> bool:
        """Return True if an apiserver at one of the addresses answers; from outside of a cluster they seldom do."""
        tried = [self._apiservers.new_apiserver(url) for url in urls]
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


async def _answers(apiserver: Apiserver) -> bool:
    await apiserver.open()
    try:
        return not isinstance(await apiserver.client.version(), Failure)
    finally:
        await apiserver.close()
