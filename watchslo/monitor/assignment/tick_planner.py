"""Chooses the resources on which the main domain ticks, and chooses again when that is needed."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from watchslo.clock.domain import TickChoice, TickPlan
from watchslo.model import Reading, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.clocks.ticker import Ticker
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Action, Failure, Reason

EVENTS = Resource("", "v1", "events", namespaced=True)
CANDIDATES = 12  # more would make the choice long, and hardly better
NAMESPACES_EACH = 4  # in which a candidate is tried, if this identity may not list it in the ones before
FAILURES_EACH = 3  # of one candidate at each apiserver, then the next candidate is tried
CHOICE_GAP_SECONDS = 0.25  # everything else waits for the choice


class TickPlanner:
    """Owns the plan of the main domain's ticks; `plan` is None while it is being made.

    `apiservers` and `tickers` are those of the main domain, by name; `watches` returns the watches whose resources are
    candidates. Ticks read in `namespace`, or where a watch reads if this identity may not list there.
    """

    def __init__(
        self,
        apiservers: Mapping[str, Apiserver],
        tickers: Mapping[str, Ticker],
        watches: Callable[[], Iterable[MonitoredWatch]],
        namespace: str,
        random: Callable[[], float],
    ) -> None:
        self.plan: TickPlan | None = None
        self._apiservers = apiservers
        self._tickers = tickers
        self._watches = watches
        self._namespace = namespace
        self._elsewhere: Mapping[Resource, str] = {}
        self._random = random
        self._needed = asyncio.Event()
        self._needed.set()

    def is_cached(self, resource: Resource) -> bool:
        """Return True unless no apiserver has a watch cache of the resource, so that each may be ticked on it."""
        if not self._apiservers:
            return resource.usually_cached
        return any(apiserver.caches.has(resource) for apiserver in self._apiservers.values())

    def namespace_of(self, resource: Resource) -> str:
        """Return the namespace in which a resource is read: the last plan found that this identity may list there."""
        return self._elsewhere.get(resource, self._namespace)

    def plan_again(self) -> None:
        """Request a new plan; the present one is no longer in force."""
        self.plan = None
        self._needed.set()

    async def run(self, on_plan: Callable[[TickPlan], None]) -> None:
        """Make a plan whenever one is needed, and pass it to `on_plan`."""
        backoff = Backoff(self._random)
        while True:
            await self._needed.wait()
            self._needed.clear()
            self.plan = await self._choose()
            on_plan(self.plan)
            await asyncio.sleep(backoff.next(time.monotonic()))

    async def _choose(self) -> TickPlan:
        """Find out what to tick on, and where; a candidate that fails, or may not be read, is dropped."""
        candidates = self._candidates()
        namespaces = {resource: [*self._namespaces(resource)] for resource in candidates}
        choice, backoff, failures, turn = TickChoice(candidates, self.is_cached), Backoff(self._random), 0, 0
        while resource := choice.next:
            if not self._apiservers:  # all of them are being replaced
                await asyncio.sleep(CHOICE_GAP_SECONDS)
                continue
            apiserver = [*self._apiservers.values()][turn % len(self._apiservers)]
            failure_log = self._tickers[apiserver.name].failures
            match await apiserver.client.read_nothing(resource, namespaces[resource][0], "tick"):
                case Reading() as reading:
                    failures = 0
                    failure_log.resolve()
                    choice.observe(reading)
                    await asyncio.sleep(CHOICE_GAP_SECONDS * (0.5 + self._random()))
                case failure if failure.reason is Reason.FORBIDDEN and len(namespaces[resource]) > 1:
                    del namespaces[resource][0]
                case failure:
                    failure_log.record("tick_failed", failure, on=resource.key)
                    turn += 1
                    failures += 1
                    if failure.action is Action.WAIT or failures == FAILURES_EACH * len(self._apiservers):
                        failures = 0
                        choice.pass_over(resource)
                    if failure.action is not Action.WAIT:
                        await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
        assert choice.plan is not None
        for resource in choice.plan.resources:  # a last one is chosen unread
            await self._leave_refused(resource, namespaces[resource])
        self._elsewhere = {resource: found[0] for resource, found in namespaces.items() if found[0] != self._namespace}
        return choice.plan

    async def _leave_refused(self, resource: Resource, namespaces: list[str]) -> None:
        """Drop the namespaces in which a resource may not be listed, except the last one."""
        for apiserver in [*self._apiservers.values()][:1]:
            while len(namespaces) > 1:
                answer = await apiserver.client.read_nothing(resource, namespaces[0], "tick")
                if not isinstance(answer, Failure) or answer.reason is not Reason.FORBIDDEN:
                    return
                del namespaces[0]

    def _candidates(self) -> list[Resource]:
        """Return what may be ticked on: first what is known to be readable, then what can be read in one namespace."""
        watches = sorted(self._watches(), key=by_readability)
        return [*dict.fromkeys((EVENTS, *(watch.identity.resource for watch in watches)))][:CANDIDATES]

    def _namespaces(self, resource: Resource) -> Iterator[str]:
        """Yield where a candidate may be readable: where it is watched; for events, where anything is watched.

        Events are first read in the configured namespace, in which `watchslo rbac` permits it.
        """
        watches = (watch.identity for watch in self._watches() if resource in (EVENTS, watch.identity.resource))
        found = dict.fromkeys((*[self._namespace] * (resource == EVENTS), *(watch.probed_in for watch in watches)))
        return islice(found, NAMESPACES_EACH if resource.namespaced else 1)


def by_readability(watch: MonitoredWatch) -> tuple[bool, bool]:
    """Return the rank of a watch whose resource may be ticked on: lower is better."""
    return not watch.session.up, not watch.identity.resource.namespaced
