"""What goes wrong, how strongly, and what a diagnosis should say of it.

Each fault is a context: it begins and ends with it. `FAULTS` is the table.
"""

import contextlib
import json
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random

from tests.confusion.answers import Truth
from tests.confusion.stage import HTTP_SECONDS, OVERRIDDEN, Stage
from tests.support.daemon import Proxy
from tests.support.process import Process
from watchslo.snapshot import Cause

WATCHED_CHUNKS = 5.0  # a second: more than any connection has but that of a busy watch
LOOK_BACK_SECONDS = 3.0
UNSEEN_SECONDS = 0.5  # in which something is written


@dataclass(frozen=True, slots=True)
class Struck:
    """What was done, and the right answers to it, any of which will do; none where nothing may be blamed."""

    strength: str
    truths: tuple[Truth, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One row of the matrix."""

    name: str
    strike: Callable[[Stage, Random], AbstractContextManager[Struck]]


@contextlib.contextmanager
def own_loop_blocked(stage: Stage, random: Random) -> Iterator[Struck]:
    blocked, free = random.uniform(0.2, 1.0), random.uniform(0.3, 1.0)
    with _again_and_again(free, lambda: _stop(stage.daemon.process, blocked)):
        yield Struck(f"{blocked:.2f} s of {blocked + free:.2f} s", (Truth(Cause.MONITOR_OVERLOADED),))


def _stop(process: Process, seconds: float) -> None:
    process.signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.signal(signal.SIGCONT)


@contextlib.contextmanager
def etcd_slow(stage: Stage, random: Random) -> Iterator[Struck]:
    law = _law(random, 0.3, 1.0)
    links = [*(member.storage for member in stage.lab.members), *stage.lab.overrides.values()]
    with contextlib.ExitStack() as stack:
        for link in links:
            stack.enter_context(link.late(law))
        yield Struck(law, (Truth(Cause.STORAGE_SLOW),))


@contextlib.contextmanager
def one_etcd_link_slow(stage: Stage, random: Random) -> Iterator[Struck]:
    law, member = _law(random, 0.3, 1.2), random.choice(stage.lab.members)
    with member.storage.late(law):
        yield Struck(law, (Truth(Cause.CACHE_BEHIND, member.name),))


@contextlib.contextmanager
def one_resource_slow(stage: Stage, random: Random) -> Iterator[Struck]:
    law = _law(random, 0.3, 1.2)
    with stage.lab.overrides[f"/{OVERRIDDEN}"].late(law):
        yield Struck(law, (Truth(Cause.RESOURCE_DECODING, watch=OVERRIDDEN),))


@contextlib.contextmanager
def one_client_side_slow(stage: Stage, random: Random) -> Iterator[Struck]:
    law, member = _law(random, 0.3, 1.2), random.choice(stage.lab.members)
    with member.client.late(law):
        yield Struck(law, (Truth(Cause.APISERVER_SENDING, member.name),))


@contextlib.contextmanager
def throttled(stage: Stage, random: Random) -> Iterator[Struck]:
    rate, member = random.uniform(1500.0, 3500.0), random.choice(stage.lab.members)
    with member.client.fault("thin-link", rate):
        yield Struck(f"{rate:.0f} bytes/s", (Truth(Cause.BANDWIDTH, member.name),))


@contextlib.contextmanager
def relist_storm(stage: Stage, random: Random) -> Iterator[Struck]:
    clients, pause, member = random.randint(80, 120), random.uniform(0.1, 0.5), random.choice(stage.lab.members)
    with stage.storm(member, clients, pause):
        yield Struck(f"{clients} clients, {pause:.2f} s apart", (Truth(Cause.RELIST_STORM),))


@contextlib.contextmanager
def history_short(stage: Stage, random: Random) -> Iterator[Struck]:
    """One resource's caches forget: each time they lose etcd and cannot catch up, they begin with what is there now.

    A list in small pages takes longer than that, so that its watch cannot follow it.
    """
    seconds = random.uniform(3.0, 5.0)
    with _again_and_again(seconds, lambda: _forget(stage)):
        yield Struck(f"every {seconds:.1f} s", (Truth(Cause.HISTORY_SHORT, watch=OVERRIDDEN),))


def _forget(stage: Stage) -> None:
    """Compacts away what the caches of one resource have not yet seen."""
    link, etcd = stage.lab.overrides[f"/{OVERRIDDEN}"], stage.lab.etcd
    with link.fault("reset", connections="new"):
        link.switch_on("reset", connections="open")
        time.sleep(UNSEEN_SECONDS)
        etcd.compact(etcd.revision())


@contextlib.contextmanager
def _again_and_again(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    over = threading.Event()

    def run() -> None:
        while True:
            act()
            if over.wait(seconds):
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def webhook_slow(stage: Stage, random: Random) -> Iterator[Struck]:
    seconds = random.uniform(0.8, 3.0)
    with stage.hooked(seconds):
        yield Struck(f"{seconds:.2f} s", (Truth(Cause.WRITE_PATH, watch="pods"),))


@contextlib.contextmanager
def stream_stalled(stage: Stage, random: Random) -> Iterator[Struck]:
    """One watch's connection dies without a word; it is never mended, but the watch may be opened anew."""
    member = random.choice(stage.lab.members)
    while not (busy := _busy_connections(member.client)):
        time.sleep(LOOK_BACK_SECONDS)  # this machine stood still
    number = random.choice(busy)
    member.client.control({"name": "hole-to-client", "connections": number}, "/faults")
    try:
        yield Struck("connection lost", (Truth(Cause.STALLED_STREAM, member.name),))
    finally:
        member.client.switch_off("hole-to-client")


def _busy_connections(proxy: Proxy) -> list[int]:
    """Those that carry much more than the answers to single requests: watches."""
    control = proxy.announced["control"]
    with urllib.request.urlopen(f"{control}/chunks", timeout=HTTP_SECONDS) as answer:
        told = json.load(answer)
    recent = (chunk for chunk in told["chunks"] if chunk["forwarded"] > told["now"] - LOOK_BACK_SECONDS)
    busy = Counter(chunk["connection"] for chunk in recent)
    return [number for number, chunks in busy.items() if chunks > WATCHED_CHUNKS * LOOK_BACK_SECONDS]


@contextlib.contextmanager
def cache_frozen(stage: Stage, _random: Random) -> Iterator[Struck]:
    with stage.lab.overrides[f"/{OVERRIDDEN}"].fault("hole-to-client"):
        yield Struck("nothing passes", (Truth(Cause.STALLED_STREAM, watch=OVERRIDDEN),))


@contextlib.contextmanager
def nothing(_stage: Stage, _random: Random) -> Iterator[Struck]:
    yield Struck("none", ())


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
    Fault("history too short", history_short),
    Fault("webhook slow", webhook_slow),
    Fault("stream stalled", stream_stalled),
    Fault("cache frozen", cache_frozen),
    Fault("nothing", nothing),
)
