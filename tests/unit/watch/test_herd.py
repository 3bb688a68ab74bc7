"""The lists of a thousand daemons after their apiserver restarts and all their revisions expire at once."""

from collections import Counter
from heapq import heappop, heappush
from random import Random

import pytest

from watchslo.watch.failure import ENDED, Phase, Reason, because, classify_status
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Begin,
    Closed,
    Input,
    Listed,
    ListRequest,
    Opened,
    Start,
    WakeAt,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import TAIL_OF_MANY
from watchslo.watch.transitions import State

DAEMONS = 1000
RESTART = 2000.0  # when all watches end, in seconds
OLD, NEW = 100, 200  # revisions before and after
REFUSED = because(Reason.REFUSED)
EXPIRED = classify_status(410, None, None, Phase.OPEN)


def lists_by_second(downtime: float) -> Counter[int]:
    """Return how many lists begin in each second after the restart, if the apiserver is down for `downtime` seconds."""
    machines = [Machine(TAIL_OF_MANY, 500, Random(number).random) for number in range(DAEMONS)]
    agenda: list[tuple[float, int, Input]] = []
    for number, machine in enumerate(machines):
        machine.receive(Begin(), 0.0)
        machine.receive(Listed(1, OLD, 0, 0), 0.0)
        machine.receive(Opened(2), RESTART - 100.0)
        heappush(agenda, (RESTART, number, Closed(2, ENDED)))
    begun: Counter[int] = Counter()
    while agenda:
        now, number, happened = heappop(agenda)
        for output in machines[number].receive(happened, now):
            match output:
                case WakeAt(time):
                    heappush(agenda, (time, number, Woken()))
                case Start(op, request):
                    begun[int(now - RESTART)] += isinstance(request, ListRequest)
                    heappush(agenda, (now + 0.001, number, answer(op, request, up=now >= RESTART + downtime)))
    assert all(machine.state is State.WATCHING for machine in machines)
    return +begun


def answer(op: int, request: ListRequest | WatchRequest, *, up: bool) -> Input:
    match request:
        case _ if not up:
            return Closed(op, REFUSED)
        case ListRequest():
            return Listed(op, NEW, 0, 100)
        case WatchRequest(revision) if revision == OLD:
            return Closed(op, EXPIRED)
        case _:
            return Opened(op)


@pytest.mark.parametrize(("downtime", "share"), [(0.0, 0.15), (5.0, 0.2), (30.0, 0.1)])
def test_lists_after_a_restart_are_spread_over_seconds(downtime: float, share: float) -> None:
    begun = lists_by_second(downtime)
    print(
        f"away for {downtime:g} s: busiest second {max(begun.values()) / DAEMONS:.1%}, over {max(begun) - min(begun)} s"
    )
    assert begun.total() == DAEMONS
    assert max(begun.values()) <= share * DAEMONS
