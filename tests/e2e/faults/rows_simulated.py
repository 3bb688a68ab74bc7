"""Faults that a real apiserver cannot have in a test, or not within a minute."""

from tests.e2e.faults.row import SIMULATED, Row, Scene
from tests.e2e.faults.rows_linked import watching

SLOW_BYTES_A_SECOND = 20_000.0


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
)
