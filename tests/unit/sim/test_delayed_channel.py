import asyncio
import time
from random import Random

import pytest

from watchslo.sim.delay_law import DelayLaw, parse_law
from watchslo.sim.delayed_channel import DelayedChannel


class Receiver:
    """Records the batches that a channel delivers, and their times."""

    def __init__(self, law: str) -> None:
        self.law: DelayLaw = parse_law(law)
        self.channel: DelayedChannel[int] = DelayedChannel(lambda: self.law, Random(7), self.take)
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self._came = asyncio.Event()

    def take(self, items: list[int]) -> None:
        self.batches.append(items)
        self.times.append(time.monotonic())
        self._came.set()

    async def next(self) -> list[int]:
        self._came.clear()
        await self._came.wait()
        return self.batches[-1]


async def test_channel_without_delay_delivers_at_once() -> None:
    receiver = Receiver("none")
    receiver.channel.push(1)
    receiver.channel.push(2)
    assert receiver.batches == [[1], [2]]


async def test_late_item_delays_the_items_behind_it() -> None:
    receiver = Receiver("constant 20ms")
    started = time.monotonic()
    receiver.channel.push(1)
    receiver.law = parse_law("none")
    receiver.channel.push(2)
    assert len(receiver.channel) == 2
    assert await receiver.next() == [1, 2]
    assert receiver.times[0] - started == pytest.approx(0.02, abs=0.002)


async def test_each_item_is_delayed_by_the_law_at_its_push() -> None:
    receiver = Receiver("constant 10ms")
    receiver.channel.push(1)
    receiver.law = parse_law("constant 3600s")
    receiver.channel.push(2)
    assert await receiver.next() == [1]
    assert len(receiver.channel) == 1
    receiver.channel.close()


async def test_held_channel_delivers_when_all_holds_are_released() -> None:
    receiver = Receiver("none")
    receiver.channel.set_hold("a", held=True)
    receiver.channel.set_hold("b", held=True)
    receiver.channel.push(1)
    receiver.channel.push(2)
    receiver.channel.set_hold("a", held=False)
    assert receiver.batches == []
    receiver.channel.set_hold("b", held=False)
    assert receiver.batches == [[1, 2]]
