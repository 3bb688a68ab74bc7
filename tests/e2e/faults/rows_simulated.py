"""Faults that a real apiserver cannot have in a test, or not within a minute."""

import time
from collections.abc import Callable

from tests.e2e.faults.row import SIMULATED, Row, Scene
from tests.e2e.faults.rows_linked import watching

SLOW_BYTES_A_SECOND = 20_000.0
CHANGES_A_SECOND = 20.0
SEVERAL_EDITS_SECONDS = 12.0  # the simulator edits an event every 5 s


def cache_too_small(scene: Scene) -> None:
    """The list takes so long that its revision has left the watch cache before the watch begins."""
    with scene.simulated("short-history"), scene.link.fault("thin-link", SLOW_BYTES_A_SECOND):
        with scene.simulated("expired"):
            scene.until_counted("relist expired")
        scene.until_counted("relist expired", times=2)


def revision_too_large(scene: Scene) -> None:
    """The apiserver's cache is frozen, so it cannot stream a list that is as new as etcd."""
    with scene.simulated("frozen-cache"):
        with scene.simulated("expired"):
            scene.until_counted("relist expired")
        scene.until_said("list_failed", reason="future_revision")


def stale_closes(scene: Scene) -> None:
    with scene.simulated("stale-close"):
        scene.until_counted("relist errors")


def lost_event(scene: Scene) -> None:
    with scene.simulated("lost-event"):
        scene.until_counted("violated reliable")


def lost_range(scene: Scene) -> None:
    with scene.simulated("lost-range"):
        scene.until_counted("violated reliable")


def lost_delete(scene: Scene) -> None:
    with scene.changing(CHANGES_A_SECOND), scene.simulated("lost-delete"):  # the writer only creates objects
        scene.until_counted("violated reliable")


def duplicate_event(scene: Scene) -> None:
    with scene.simulated("duplicate-event"):
        scene.until_counted("violated unique")


def swapped_events(scene: Scene) -> None:
    with scene.simulated("swapped-events"):
        scene.until_counted("violated ordered")


def early_bookmark(scene: Scene) -> None:
    with scene.simulated("early-bookmark"):
        scene.until_counted("violated bookmarkable")


def backward_bookmark(scene: Scene) -> None:
    with scene.simulated("backward-bookmark"):
        scene.until_counted("violated bookmarkable")


def skipped_resume(scene: Scene) -> None:
    with scene.simulated("skipped-resume"):
        with scene.simulated("cut"):  # all watches end at once
            pass
        scene.until_counted("violated resumable")


def wrong_type(scene: Scene) -> None:
    """No guarantee is about types: the event counts as what its type says."""
    with scene.changing(CHANGES_A_SECOND), scene.simulated("wrong-type"):
        time.sleep(SEVERAL_EDITS_SECONDS)
    assert "wrong-type" in scene.edits()


def slow_encoding(scene: Scene) -> None:
    """Only the watch of whole objects, which the option `reference` opens, gets its events late."""
    with scene.simulated("slow-encoding"):
        scene.until_counted("whole objects late", times=40)


def _violating(title: str, strike: Callable[[Scene], None], *counted: str) -> Row:
    """Return a row of a watch whose events are all read a second time; the rows share one daemon."""
    return Row(
        title,
        strike,
        frozenset(counted),
        watches=watching("secrets", representation="metadata"),
        keys={"guarantees": {"level": "full"}},
        where=SIMULATED,
    )


VIOLATING = (
    _violating("a watch loses one event", lost_event, "violated reliable"),
    _violating("a watch loses ten events in a row", lost_range, "violated reliable"),
    _violating("a watch loses a DELETED event", lost_delete, "violated reliable"),
    _violating("a watch gets an event twice", duplicate_event, "violated unique"),
    _violating("a watch gets two events in the opposite order", swapped_events, "violated ordered"),
    _violating("a watch gets a bookmark before an event that it covers", early_bookmark, "violated bookmarkable"),
    _violating("a watch gets a bookmark older than the one before", backward_bookmark, "violated bookmarkable"),
    _violating(
        "a watch misses the first event after its connection was cut",
        skipped_resume,
        "violated resumable",
        "closed network",
    ),
    _violating("a watch gets a MODIFIED event as ADDED", wrong_type),
)

SIMULATED_ROWS = (
    Row(
        "a watch cache too small for the list's duration",
        cache_too_small,
        frozenset({"relist expired", "closed expired/expired", "expired stream", "gap"}),
        forgets=True,
        watches=watching("configmaps", list="paged"),
        where=SIMULATED,
    ),
    Row(
        "a streamed list is answered with 504: too large revision",
        revision_too_large,
        frozenset({"relist expired", "closed expired/expired", "expired stream", "gap"}),
        forgets=True,
        watches=watching("pods", list="stream"),
        where=SIMULATED,
    ),
    Row(
        "a stale revision is answered with clean closes, again and again",
        stale_closes,
        frozenset({"closed server/empty_close", "relist errors", "gap"}),
        also=frozenset({"closed server/forced"}),
        forgets=True,
        watches=watching("leases.coordination.k8s.io"),
        where=SIMULATED,
    ),
    Row(
        "whole objects are late, and the events of a small representation are not",
        slow_encoding,
        frozenset({"whole objects late"}),
        watches=watching("events", reference=True),
        where=SIMULATED,
    ),
    *VIOLATING,
)
