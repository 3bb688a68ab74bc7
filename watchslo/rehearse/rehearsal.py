"""One rehearsal: starts an informer by one strategy and counts what that costs until it is synced."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus

from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.monitor.protocol.driver import Driver, WatchTarget
from watchslo.rehearse.apiserver_process import ApiserverCost
from watchslo.rehearse.list_source import ListSource
from watchslo.watch.failure import Action, Failure, Phase, Reason, because
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Batch,
    Expired,
    Fact,
    FellBack,
    Input,
    ListDone,
    Listed,
    ListFailed,
    Output,
    Start,
    WatchClosed,
    WatchOpened,
)
from watchslo.watch.strategy import PAGE_SIZE, Strategy
from watchslo.watch.transitions import State

SETTLE_SECONDS = 1.0  # for which the watch must stay open: a 410 comes up to 4 ms after the headers
PATIENCE_SECONDS = 300.0  # etcd is compacted every five minutes: the revision of a longer list has expired
TRIES = 3  # of failing requests: lists are expensive, and an informer would not work either
LONGEST_LINE = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What one start of an informer cost. Synced means: all objects are known, and a watch is open from that revision.

    `by` is the strategy that completed the list, which may be a fallback. `synced` is the seconds until then, including
    waits after failures; None if it was never synced, and `failure` says why. Until then lists and watches sent `size`
    bytes, and `events` arrived live; of these, at most `waiting` bytes had to wait for the list. `expired` counts 410s:
    of lists, and of watches from a list's revision. `cost` is what the apiserver spent, `source` where it read the
    lists; None if that is unknown.
    """

    strategy: str
    by: str
    synced: float | None
    requests: int
    pages: int
    objects: int
    size: int
    events: int
    waiting: int
    throttled: int
    expired_lists: int
    expired_watches: int
    fell_back: bool
    failure: Failure | None
    cost: ApiserverCost | None = None
    source: ListSource | None = None

    @property
    def expired(self) -> int:
        return self.expired_lists + self.expired_watches

    @property
    def hopeless(self) -> bool:
        """Whether no rehearsal can work before the permissions or the credentials change."""
        return self.failure is not None and self.failure.action in _HOPELESS


_HOPELESS = (Action.WAIT, Action.REAUTHENTICATE)


async def rehearse_once(
    strategy: Strategy, client: Client, resource: Resource, namespace: str | None, random: Callable[[], float]
) -> Rehearsal:
    """Start an informer of whole objects as JSON, and end it once it has been synced for a second."""
    run = _Run(strategy, random)
    target = WatchTarget(resource, namespace, Selectors(), LONGEST_LINE)
    driver = Driver(run.machine, client, target, Representation.PLAIN, emit=run.emit, note=run.note, heard=run.hear)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(driver.run())
        await run.until_over()
        rehearsal = run.result()
        driver.halt(Reason.SHUTDOWN)
    return rehearsal


class _CountingMachine(Machine):
    """A machine that counts the requests it asks for, and the pages, objects and bytes of lists."""

    requests = pages = items = list_bytes = 0

    def receive(self, happened: Input, now: float) -> list[Output]:
        if isinstance(happened, Listed):
            self.pages += 1
            self.items += happened.items
            self.list_bytes += happened.size
        outputs = super().receive(happened, now)
        self.requests += sum(isinstance(output, Start) for output in outputs)
        return outputs


class _Traffic:
    """Bytes that watches have sent: `total`, and the most that had to wait for a list at one time."""

    def __init__(self) -> None:
        self.total = 0
        self.waiting = 0
        self._held = 0  # while the list is not complete

    def add(self, size: int, *, must_wait: bool) -> None:
        self.total += size
        if must_wait:
            self._held += size
            self.waiting = max(self.waiting, self._held)

    def release(self) -> None:
        """Note that a new list begins."""
        self._held = 0


class _Run:
    """The state of one rehearsal while it runs."""

    def __init__(self, strategy: Strategy, random: Callable[[], float]) -> None:
        self.machine = _CountingMachine(strategy, PAGE_SIZE, random)
        self._over = asyncio.Event()
        self._began = time.monotonic()
        self._list: ListDone | None = None
        self._objects = 0
        self._synced: float | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._failure: Failure | None = None
        self._failures = 0
        self._expired: Counter[Phase] = Counter()
        self._throttled = 0
        self._fell_back = False
        self._events = 0
        self._traffic = _Traffic()

    async def until_over(self) -> None:
        """Return when the informer is synced and stays so, has failed, or has taken too long."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._over.wait()
        except TimeoutError:
            self._lose()
            self._failure = replace(
                because(Reason.TIMEOUT), message=f"It was not synced after {PATIENCE_SECONDS:.0f} s."
            )

    # What the driver reports

    def emit(self, batch: Batch) -> None:
        if self._synced is None:
            self._events += len(batch.revisions)

    def hear(self, size: int) -> None:
        if self._synced is not None:
            return
        self._traffic.add(size, must_wait=bool(self.machine.pages) and self._list is None)

    def note(self, fact: Fact) -> None:
        match fact:
            case ListDone():
                self._list = fact
                self._objects = fact.items
                self._settle()
            case WatchOpened():
                self._settle()
            case ListFailed(failure) | WatchClosed(failure) if failure.action is not Action.STOP:
                self._fail(failure)
            case Expired(phase):
                self._list = None
                self._traffic.release()
                self._expired[phase] += 1
            case FellBack():
                self._fell_back = True
                self._failures = 0  # the fallback has tries of its own
            case _:
                pass

    def _settle(self) -> None:
        """Note that the informer is synced; the rehearsal is over if no failure follows soon."""
        if self._list is None or self.machine.state is not State.WATCHING:
            return
        self._synced = time.monotonic() - self._began
        self._settling = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._over.set)

    def _fail(self, failure: Failure) -> None:
        self._lose()
        self._failure = failure
        self._failures += 1
        self._throttled += failure.status == HTTPStatus.TOO_MANY_REQUESTS
        if self._failures == TRIES or failure.action in _HOPELESS:
            self._over.set()

    def _lose(self) -> None:
        self._synced = None
        if self._settling:
            self._settling.cancel()

    def result(self) -> Rehearsal:
        machine = self.machine
        return Rehearsal(
            strategy=machine.strategy.name,
            by=self._list.strategy if self._list else machine.strategy.name,
            synced=self._synced,
            requests=machine.requests,
            pages=machine.pages,
            objects=self._objects,
            size=machine.list_bytes + self._traffic.total,
            events=self._events,
            waiting=self._traffic.waiting,
            throttled=self._throttled,
            expired_lists=self._expired[Phase.LIST],
            expired_watches=self._expired.total() - self._expired[Phase.LIST],
            fell_back=self._fell_back,
            failure=None if self._synced is not None else self._failure,
        )
