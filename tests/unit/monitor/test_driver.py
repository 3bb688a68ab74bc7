"""A driver whose machine and client are stand-ins, for orders of events that no server can be made to cause."""

import asyncio
from typing import Any

from tests.unit.monitor.cluster import PODS, because_of
from watchslo.kube.call import Selectors
from watchslo.kube.representation import Representation
from watchslo.monitor.protocol.driver import Driver, WatchTarget
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import Begin, Cancel, Closed, Input, ListRequest, Output, Start, Woken

LIST = ListRequest()


class Fake:
    """A machine that lists at once; it is the client and the open watch as well.

    An event that was received but not yet passed on makes the machine cancel the list, as a 410 in a watch does.
    """

    inventory = None
    driver: Driver

    def __init__(self) -> None:
        self.received: list[Input] = []
        self.pending = False

    def receive(self, happened: Input, _: float) -> list[Output]:
        self.received.append(happened)
        return [Start(1, LIST)] if isinstance(happened, Begin) else [Cancel(1)] if isinstance(happened, Woken) else []

    async def list_page(self, *_: Any, **__: Any) -> Failure:
        self.pending = True
        return because_of(Reason.EXPIRED)

    def catch_up(self) -> None:
        if self.pending:
            self.pending = False
            for output in self.receive(Woken(), 0.0):
                self.driver._execute(output)


async def test_event_that_cancels_a_list_just_when_it_ends_is_no_crash() -> None:
    fake: Any = Fake()
    target = WatchTarget(PODS, None, Selectors(), 1000)
    fake.driver = driver = Driver(fake, fake, target, Representation.TABLE, emit=print, note=print, heard=print)
    driver._response = fake
    running = asyncio.create_task(driver.run())
    await asyncio.sleep(0.1)
    driver.halt(Reason.SHUTDOWN)
    await running
    assert Woken() in fake.received
    assert not [one for one in fake.received if isinstance(one, Closed)], "the list was cancelled before it ended"
