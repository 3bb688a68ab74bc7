"""`python -m benchmarks.guarantees` measures what it costs to verify the guarantees of watches, without I/O.

`stream` adds one field to each decoded event, and the judgement of its order. An inventory compares the types of
events, and selectors are applied to the events of second watches. `compare` compares what the watches of
several apiservers delivered, once in five seconds. `losses` counts which of the events that one of three watches loses
are found.
"""

import json
import time
from collections.abc import Callable
from uuid import UUID

import msgspec

from benchmarks.measure import BLOCK_SECONDS, figure
from tests.support.lossy_watches import EVENTS as LOSSY_EVENTS
from tests.support.lossy_watches import SHARE, lossy_run
from watchslo.watch.audit import Delivered
from watchslo.watch.decode import Bookmark, EventObject, ObjectChange, decode
from watchslo.watch.delivery_comparison import DeliveryComparison, PeerDeliveries
from watchslo.watch.guarantees import ReceivedPosition
from watchslo.watch.inventory import Inventory
from watchslo.watch.live_events import sort_live
from watchslo.watch.selection import SELECTABLE, SelectedEvents, selection_of

ROUNDS = 40
BLOCKS = 200  # decoded in each round
EVENTS = 20  # of one block
FIRST = 10_000_000  # revision
LOSSY_RUNS = 100
APISERVERS, RESOURCES, EVENTS_A_SECOND = 3, 60, 10
OBJECTS = 100_000  # of an inventory


class _Plain(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    object: EventObject


class _PlainAdded(_Plain, frozen=True, gc=False, tag="ADDED"):
    """An event as it was decoded before anything identified its object."""


class _PlainModified(_Plain, frozen=True, gc=False, tag="MODIFIED"):
    """The same, of another type."""


class _PlainDeleted(_Plain, frozen=True, gc=False, tag="DELETED"):
    """The same, of another type."""


def best(work: Callable[[], object]) -> float:
    """Return the shortest time of some rounds, in seconds."""
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def guarantees() -> None:
    """Print the costs."""
    print(f"Guarantees, by event; the shortest of {ROUNDS} rounds:")
    _of_streams()
    _of_types()
    _of_selections()
    _of_comparisons()
    _of_losses()


def _of_streams() -> None:
    cells = ["web-7d4b9c5f6-x2k41", "1/1", "Running", "0", "25s"]
    revisions = map(str, range(FIRST, FIRST + EVENTS))
    changed = [{"metadata": {"resourceVersion": revision}, "rows": [{"cells": cells}]} for revision in revisions]
    lines = [{"type": "MODIFIED", "object": one} for one in changed]
    block = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    plain = msgspec.json.Decoder(_PlainAdded | _PlainModified | _PlainDeleted | Bookmark)
    frames, count = decode(block), BLOCKS * EVENTS

    def sort() -> None:
        for _ in range(BLOCKS):
            sort_live(frames, 0.0, 0, ReceivedPosition())

    without = best(lambda: [plain.decode_lines(block) for _ in range(BLOCKS)])
    decoded = best(lambda: [decode(block) for _ in range(BLOCKS)])
    figure("an event of a Table is decoded without its rows", 1e9 * without / count, "ns")
    figure("decoded with its rows as bytes, which identify the object", 1e9 * decoded / count, "ns")
    figure("its order is judged, and the live events are put together", 1e9 * best(sort) / count, "ns")


def _of_types() -> None:
    uids = [str(UUID(int=number)) for number in range(OBJECTS)]
    inventory = Inventory()
    inventory.begin()
    inventory.list(uids, [str(FIRST)] * OBJECTS)
    inventory.finish(FIRST, FIRST)
    types, revisions = ["MODIFIED"] * EVENTS, range(FIRST, FIRST + EVENTS)
    batches = [uids[first :: OBJECTS // EVENTS] for first in range(BLOCKS)]

    def apply() -> None:
        for batch in batches:
            assert not inventory.apply(types, batch, revisions)

    checked = best(apply)
    inventory.doubt()
    figure(f"an event is added to an inventory of {OBJECTS:,} objects", 1e9 * best(apply) / BLOCKS / EVENTS, "ns")
    figure("the same, and its type is compared", 1e9 * checked / BLOCKS / EVENTS, "ns")


def _of_selections() -> None:
    selection = selection_of("shop", None, "app in (web,db),tier!=0")
    assert selection is not None
    labels = {"app": "web", "tier": "1", "pod-template-hash": "7d4b9c5f6"}
    metadata = {"name": "web-7d4b9c5f6-x2k41", "namespace": "shop", "labels": labels}
    changed = [{"metadata": {**metadata, "resourceVersion": str(FIRST + number)}} for number in range(EVENTS)]
    lines = [{"type": "MODIFIED", "object": one} for one in changed]
    block = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)

    def select() -> None:
        for _ in range(BLOCKS):
            selected = SelectedEvents(selection, {})
            for number, event in enumerate(decode(block, SELECTABLE).events):
                assert isinstance(event, ObjectChange)
                selected.add(number, event)
            assert not selected.excluded

    plain = best(lambda: [decode(block) for _ in range(BLOCKS)])
    figure("an event of a second watch is decoded without labels", 1e9 * plain / BLOCKS / EVENTS, "ns")
    figure("decoded with labels, and selectors are applied", 1e9 * best(select) / BLOCKS / EVENTS, "ns")


def _of_comparisons() -> None:
    revisions = range(1, 1 + round(EVENTS_A_SECOND * BLOCK_SECONDS))
    groups = [(DeliveryComparison(), [Delivered() for _ in range(APISERVERS)]) for _ in range(RESOURCES)]

    def compare() -> None:
        for comparison, deliveries in groups:
            peers = {number: PeerDeliveries(one, revisions[-1]) for number, one in enumerate(deliveries)}
            assert len([*comparison.compare(peers)]) == APISERVERS

    took = []
    for _ in range(ROUNDS):
        for _, deliveries in groups:
            for one in deliveries:
                one.begin(0)
                one.extend(revisions)
        began = time.perf_counter()
        compare()
        took.append(time.perf_counter() - began)
    watches = APISERVERS * RESOURCES
    what = f"{watches} watches of {APISERVERS} apiservers, {EVENTS_A_SECOND} events a second each, are compared"
    figure(what, 1e3 * min(took), "ms", f"once in {BLOCK_SECONDS:.0f} s")
    figure("which is, for each event", 1e9 * min(took) / (watches * len(revisions)), "ns")


def _of_losses() -> None:
    runs = [lossy_run(seed) for seed in range(LOSSY_RUNS)]
    lost, missed = sum(len(run.lost) for run in runs), sum(run.missed for run in runs)
    events = LOSSY_RUNS * APISERVERS * LOSSY_EVENTS / 1e6
    print(f"Losses of a share of {SHARE:g} at one of three watches, {LOSSY_RUNS} runs, {events:,.0f} million events:")
    figure("found at that watch, as a violation of `reliable`", lost - missed, "events", f"of {lost}")
    figure("found twice, elsewhere or otherwise", sum(run.false_alarms for run in runs), "events", "none")


if __name__ == "__main__":
    guarantees()
