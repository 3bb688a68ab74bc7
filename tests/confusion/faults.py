"""The faults of the confusion matrix, with their random strengths and the right diagnoses.

Each fault is a context manager that injects the fault on entry and removes it on exit. `FAULTS` is the table.
"""

import contextlib
import json
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random

from tests.confusion.answers import Truth
from tests.confusion.stage import HTTP_SECONDS, OVERRIDDEN, Stage
from tests.support.background import repeated
from tests.support.daemon import Proxy
from watchslo.snapshot import Cause

WATCHED_CHUNKS = 5.0  # per second, of a busy watch at least
LOOK_BACK_SECONDS = 3.0
SILENT_SECONDS = 15.0  # of the client of a watch; an audit, which is a short watch, ends earlier


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """The strength of an injected fault, and the accepted answers; without answers, no cause may be named."""

    strength: str
    truths: tuple[Truth, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the matrix."""

    name: str
    inject: Callable[[Stage, Random], AbstractContextManager[InjectedFault]]


@contextlib.contextmanager
def own_loop_blocked(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    blocked, free = random.uniform(0.2, 1.0), random.uniform(0.3, 1.0)
    with repeated(free, lambda: stage.daemon.process.pause(blocked)):
        yield InjectedFault(f"{blocked:.2f} s of {blocked + free:.2f} s", (Truth(Cause.MONITOR_OVERLOADED),))


@contextlib.contextmanager
def etcd_slow(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    law = _law(random, 0.3, 1.0)
    links = [*(member.storage for member in stage.lab.members), *stage.lab.overrides.values()]
    with contextlib.ExitStack() as stack:
        for link in links:
            stack.enter_context(link.late(law))
        yield InjectedFault(law, (Truth(Cause.STORAGE_SLOW),))


@contextlib.contextmanager
def one_etcd_link_slow(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    law, member = _law(random, 0.3, 1.2), random.choice(stage.watched)
    with member.storage.late(law):
        yield InjectedFault(law, (Truth(Cause.CACHE_BEHIND, member.name),))


@contextlib.contextmanager
def one_resource_slow(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    law = _law(random, 0.3, 1.2)
    with stage.lab.overrides[f"/{OVERRIDDEN}"].late(law):
        yield InjectedFault(law, (Truth(Cause.RESOURCE_DECODING, watch=OVERRIDDEN),))


@contextlib.contextmanager
def one_client_side_slow(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    law, member = _law(random, 0.3, 1.2), random.choice(stage.watched)
    with member.client.late(law):
        yield InjectedFault(law, (Truth(Cause.APISERVER_SENDING, member.name),))


@contextlib.contextmanager
def throttled(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    rate, member = random.uniform(1500.0, 3500.0), random.choice(stage.watched)
    with member.client.fault("thin-link", rate):
        yield InjectedFault(f"{rate:.0f} bytes/s", (Truth(Cause.BANDWIDTH, member.name),))


@contextlib.contextmanager
def relist_storm(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    clients, pause, member = random.randint(120, 180), random.uniform(0.1, 0.3), random.choice(stage.watched)
    with stage.storm(member, clients, pause):
        yield InjectedFault(f"{clients} clients, {pause:.2f} s apart", (Truth(Cause.RELIST_STORM),))


@contextlib.contextmanager
def headroom_short(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    """Make the caches of one resource lose their revisions.

    A list in small pages takes longer than the time between two losses, so the watch after it gets a 410.
    """
    seconds = random.uniform(3.0, 5.0)
    with repeated(seconds, lambda: stage.lab.lose_revisions(f"/{OVERRIDDEN}")):
        yield InjectedFault(f"every {seconds:.1f} s", (Truth(Cause.HISTORY_SHORT, watch=OVERRIDDEN),))


@contextlib.contextmanager
def webhook_slow(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    seconds = random.uniform(0.8, 3.0)
    with stage.slow_webhook(seconds):
        yield InjectedFault(f"{seconds:.2f} s", (Truth(Cause.WRITE_PATH, watch="pods"),))


@contextlib.contextmanager
def watch_stalled(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    """Let the connection of one watch die silently. The connection stays dead, but the watch may be reopened."""
    member = random.choice(stage.watched)
    with member.client.fault("hole-to-client", connections=_a_watch(member.client, random)):
        yield InjectedFault("connection lost", (Truth(Cause.STALLED_STREAM, member.name),))


@contextlib.contextmanager
def watch_parked(stage: Stage, random: Random) -> Iterator[InjectedFault]:
    """Hold one watch for a time, let it catch up, and hold it again, as a client sees a watch that is parked.

    An audit would reopen a watch that is silent for longer, and then nothing is left to hold.
    """
    held, free, member = random.uniform(1.5, 2.0), random.uniform(1.5, 3.0), random.choice(stage.watched)
    number = _a_watch(member.client, random)

    def hold() -> None:
        with member.client.fault("hole-to-client", connections=number):
            time.sleep(held)

    with repeated(free, hold):
        yield InjectedFault(f"{held:.1f} s of {held + free:.1f} s", (Truth(Cause.PARKED_WATCH, member.name),))


def _a_watch(proxy: Proxy, random: Random) -> int:
    """Return the connection of a busy watch."""
    while not (busy := _busy_watches(proxy)):
        time.sleep(LOOK_BACK_SECONDS)  # this machine was paused
    return random.choice(busy)


def _busy_watches(proxy: Proxy) -> list[int]:
    """Return the connections that had many chunks while their client asked for nothing: watches."""
    control = proxy.announced["control"]
    with urllib.request.urlopen(f"{control}/chunks", timeout=HTTP_SECONDS) as answer:
        log = json.load(answer)
    recent = [chunk for chunk in log["chunks"] if chunk["forwarded"] > log["now"] - LOOK_BACK_SECONDS]
    chunks = Counter(chunk["connection"] for chunk in recent)
    silent = [int(number) for number, asked in log["asked"].items() if asked < log["now"] - SILENT_SECONDS]
    return [number for number in silent if chunks[number] > WATCHED_CHUNKS * LOOK_BACK_SECONDS]


@contextlib.contextmanager
def cache_frozen(stage: Stage, _random: Random) -> Iterator[InjectedFault]:
    with stage.lab.overrides[f"/{OVERRIDDEN}"].fault("hole-to-client"):
        yield InjectedFault("nothing passes", (Truth(Cause.STALLED_STREAM, watch=OVERRIDDEN),))


@contextlib.contextmanager
def no_fault(_stage: Stage, _random: Random) -> Iterator[InjectedFault]:
    yield InjectedFault("none", ())


def _law(random: Random, least: float, most: float) -> str:
    seconds = random.uniform(least, most)
    return f"normal {1e3 * seconds:.0f}ms {1e2 * seconds:.0f}ms"


FAULTS = (
    Fault("own loop blocked", own_loop_blocked),
    Fault("etcd slow", etcd_slow),
    Fault("one etcd link slow", one_etcd_link_slow),
    Fault("one resource slow", one_resource_slow),
    Fault("one client side slow", one_client_side_slow),
    Fault("throttled", throttled),
    Fault("relist storm", relist_storm),
    Fault("headroom too short", headroom_short),
    Fault("webhook slow", webhook_slow),
    Fault("watch stalled", watch_stalled),
    Fault("watch parked", watch_parked),
    Fault("cache frozen", cache_frozen),
    Fault("no fault", no_fault),
)
