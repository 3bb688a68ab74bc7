"""Writers, ticks and watches on a real control plane, and the times of all they did."""

import contextlib
import json
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.inequalities.judging import TickRecord
from tests.support.arrivals import WatchArrivals
from tests.support.control_plane import ControlPlane
from tests.support.process import Process, eventually
from tests.support.writer import Write, configmap

COLLECTION = "/api/v1/namespaces/default/configmaps"
UNCACHED = "/api/v1/namespaces/default/events"
TICKING = Path(__file__).with_name("ticking.py")
END_SECONDS = 30.0
OPENING_SECONDS = 1.0  # until the first event may be written


@dataclass(frozen=True, slots=True)
class Load:
    """How many objects to create by how many writers, how many a second (0: as fast as possible), and how many ticks.

    `ticks` a second go to the uncached and as many to a cached resource; a train of `train` a second goes to the
    uncached one as well. All go through the first apiserver. With `only_other`, no object is created through that one.
    """

    objects: int
    writers: int
    rate: float
    ticks: float
    train: float
    seed: int
    only_other: bool = False


@dataclass(slots=True)
class Recording:
    """What happened: the writes through each apiserver, the ticks, and when each watch delivered each revision."""

    writes: list[list[Write]] = field(default_factory=list)
    ticks: list[TickRecord] = field(default_factory=list)
    arrivals: list[dict[int, float]] = field(default_factory=list)

    def sighted(self) -> dict[int, float]:
        """Return when a watch first delivered each revision."""
        first: dict[int, float] = {}
        for arrivals in self.arrivals:
            for revision, at in arrivals.items():
                first[revision] = min(at, first.get(revision, at))
        return first


def record(plane: ControlPlane, load: Load) -> Recording:
    """Create the objects while ticks go through the first apiserver; return what happened."""
    recording = Recording()
    with contextlib.ExitStack() as stack:
        for apiserver in plane.apiservers:
            recording.arrivals.append(stack.enter_context(WatchArrivals(plane, apiserver, COLLECTION)).at)
            recording.writes.append([])
        time.sleep(OPENING_SECONDS)
        ticking = stack.enter_context(_ticking(plane, load))
        with ThreadPoolExecutor(load.writers) as pool:
            for done in [pool.submit(_write, plane, number, load, recording) for number in range(load.writers)]:
                done.result()
        written = {write.revision for writes in recording.writes for write in writes}
        eventually(lambda: all(written <= set(one) for one in recording.arrivals), "all arrive")
        ticking.signal(signal.SIGTERM)
        assert ticking.wait() == 0, ticking.tail()
        recording.ticks += [TickRecord(*stamped) for stamped in json.loads(ticking.out)]
    return recording


def _write(plane: ControlPlane, number: int, load: Load, recording: Recording) -> None:
    """Create this writer's share of the objects; writers take the apiservers in turn."""
    server = len(plane.apiservers) - 1 if load.only_other else number % len(plane.apiservers)
    random, due = Random(f"{load.seed} {number}"), time.monotonic()
    with plane.apiservers[server].writer(plane.token) as writer:
        for place in range(number, load.objects, load.writers):
            if load.rate:
                due += random.expovariate(load.rate / load.writers)
                time.sleep(max(due - time.monotonic(), 0.0))
            recording.writes[server].append(writer.create(COLLECTION, configmap(f"{load.seed}-{place}")))


def _ticking(plane: ControlPlane, load: Load) -> Process:
    trains = [(UNCACHED, load.ticks), (COLLECTION, load.ticks), (UNCACHED, load.train)]
    settings = {"url": plane.url, "ca": str(plane.ca), "token": plane.token, "seed": load.seed, "trains": trains}
    return Process(plane.folder, "ticking", [sys.executable, TICKING, json.dumps(settings)])


def all_writes(recording: Recording) -> Sequence[Write]:
    """Return the writes through all apiservers."""
    return [write for writes in recording.writes for write in writes]
