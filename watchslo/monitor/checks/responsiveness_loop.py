"""Notices apiservers that answer nothing any more."""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial

import structlog

from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.tasks.lag import Lag
from watchslo.monitor.tasks.task_supervisor import contain
from watchslo.monitor.tasks.time_limit import with_time_limit
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.watch.backoff import Backoff
from watchslo.watch.responsiveness import SUSPECT_SECONDS

LOOK_SECONDS = 1.0
ASK_SECONDS = 5.0  # for the version, which needs no storage
CAP_SECONDS = 1.0  # of the waits between requests without an answer, as a return is to be noticed soon,
CAP_OF_MANY_SECONDS = 15.0  # but thousands of daemons ask seldom


class ResponsivenessLoop:
    """Looks at all apiservers each second, and asks a silent one for its version, which needs no storage.

    While it stays silent, a daemon that is one `of_many` asks it ever more rarely: ticks and watches ask it too. The
    loop decides for each apiserver whether it is unresponsive, and logs when that begins and ends. Watches that wait
    because of the silence are opened soon after it ends.
    """

    def __init__(
        self,
        apiservers: Callable[[], Iterable[Apiserver]],
        watches: Callable[[], Iterable[MonitoredWatch]],
        lag: Lag,
        random: Callable[[], float],
        *,
        of_many: Callable[[], bool],
    ) -> None:
        self._apiservers = apiservers
        self._watches = watches
        self._lag = lag
        self._random = random
        self._of_many = of_many
        self._asking: dict[Apiserver, asyncio.Task[None]] = {}
        self._unresponsive: set[Apiserver] = set()
        self._suspected: set[Apiserver] = set()
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Look until cancelled."""
        looked, tainted = time.monotonic(), self._lag.tainted_seconds
        async with asyncio.TaskGroup() as requests:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                now = time.monotonic()
                late = max(self._lag.tainted_seconds - tainted, now - looked - LOOK_SECONDS)
                looked, tainted = now, self._lag.tainted_seconds
                apiservers = [*self._apiservers()]
                self._unresponsive &= {*apiservers}
                self._suspected &= {*apiservers}
                for apiserver in apiservers:
                    self._look(apiserver, now, late, requests)

    def _look(self, apiserver: Apiserver, now: float, late: float, requests: asyncio.TaskGroup) -> None:
        responsiveness = apiserver.client.responsiveness
        if responsiveness.silence(now) >= SUSPECT_SECONDS:
            for watch in self._watches():
                if watch.identity.apiserver is apiserver and watch.session.received is not None:
                    responsiveness.heard(watch.session.received)
        responsiveness.look(now, late)
        if responsiveness.silence(now) >= SUSPECT_SECONDS and apiserver not in self._asking:
            work = contain(("responsiveness", apiserver.name), partial(self._ask, apiserver))
            asking = self._asking[apiserver] = requests.create_task(work)
            asking.add_done_callback(lambda _: self._asking.pop(apiserver))
        self._log_change(apiserver, now)
        self._note_return(apiserver, now)

    async def _ask(self, apiserver: Apiserver) -> None:
        """Ask for the version until anything is answered, which the client notes."""
        cap = CAP_OF_MANY_SECONDS if self._of_many() else CAP_SECONDS
        backoff, responsiveness = Backoff(self._random, LOOK_SECONDS, cap), apiserver.client.responsiveness
        while responsiveness.silence(time.monotonic()) >= SUSPECT_SECONDS and apiserver in self._apiservers():
            await with_time_limit(apiserver.client.version(), ASK_SECONDS)
            await asyncio.sleep(backoff.next(time.monotonic()))  # a refusal comes at once

    def _note_return(self, apiserver: Apiserver, now: float) -> None:
        """Let the watches of an apiserver that answers again open soon."""
        responsiveness = apiserver.client.responsiveness
        if responsiveness.silence(now) >= SUSPECT_SECONDS or responsiveness.refuses:
            self._suspected.add(apiserver)
        elif apiserver in self._suspected:
            self._suspected.discard(apiserver)
            for watch in self._watches():
                if watch.identity.apiserver is apiserver:
                    watch.hasten()

    def _log_change(self, apiserver: Apiserver, now: float) -> None:
        silent_for = apiserver.unresponsive_for(now)
        if silent_for is not None and apiserver not in self._unresponsive:
            self._unresponsive.add(apiserver)
            self._log.warning("apiserver_unresponsive", apiserver=apiserver.name, silent_s=round(silent_for, 1))
        elif silent_for is None and apiserver in self._unresponsive:
            self._unresponsive.discard(apiserver)
            self._log.info("apiserver_responsive", apiserver=apiserver.name)
