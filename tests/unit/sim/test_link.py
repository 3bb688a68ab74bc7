import asyncio
import time
from random import Random

from watchslo.sim.delay import Law, parse_law
from watchslo.sim.link import Link


class Receiver:
    """Keeps what a link delivers, in batches, and when."""

    def __init__(self, law: str) -> None:
        self.law: Law = parse_law(law)
        self.link: Link[int] = Link(lambda: self.law, Random(7), self.take)
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self._came = asyncio.Event()

    def take(self, items: list[int]) -> None:
        self.batches.append(items)
        self.times.append(time.monotonic())
        self._came.set()

    async def next(self) -> list[int]:
        self._came.clear()
        await asyncio.wait_for(self._came.wait(), 30.0)
        return self.batches[-1]


async def test_without_delay_an_item_is_there_at_once() -> None:
    receiver = Receiver("none")
    receiver.link.push(1)
    receiver.link.push(2)
    assert receiver.batches == [[1], [2]]


async def test_an_item_comes_late_and_those_behind_it_with_it() -> None:
    receiver = Receiver("constant 20ms")
    started = time.monotonic()
    receiver.link.push(1)
    receiver.law = parse_law("none")
    receiver.link.push(2)
    assert len(receiver.link) == 2
    assert await receiver.next() == [1, 2]
    assert receiver.times[0] - started >= 0.02


async def test_each_item_waits_its_own_time() -> None:
    receiver = Receiver("constant 10ms")
    receiver.link.push(1)
    receiver.law = parse_law("constant 3600s")
    receiver.link.push(2)
    assert await receiver.next() == [1]
    assert len(receiver.link) == 1
    receiver.link.close()


async def test_a_held_link_delivers_when_all_reasons_are_gone() -> None:
    receiver = Receiver("none")
    receiver.link.set_hold("a", held=True)
    receiver.link.set_hold("b", held=True)
    receiver.link.push(1)
    receiver.link.push(2)
    receiver.link.set_hold("a", held=False)
    assert receiver.batches == []
    receiver.link.set_hold("b", held=False)
    assert receiver.batches == [[1, 2]]


async def test_a_closed_link_forgets() -> None:
    receiver = Receiver("constant 1ms")
    receiver.link.push(1)
    receiver.link.close()
    receiver.law = parse_law("constant 10ms")
    receiver.link.push(2)
    assert await receiver.next() == [2]
