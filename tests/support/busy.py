"""A cluster with steady changes."""

import contextlib
import itertools
import threading
from collections.abc import Iterator

from tests.support.control_plane import ControlPlane
from tests.support.writer import configmap, given_up

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@contextlib.contextmanager
def steady_writes(plane: ControlPlane) -> Iterator[None]:
    """Create and delete config maps, about forty changes a second; a write given up does not block a later name."""
    over = threading.Event()

    def write() -> None:
        with plane.writer() as writer:
            for number in itertools.count():
                if over.wait(0.05):
                    return
                with given_up():
                    writer.create(CONFIGMAPS, configmap(f"checked-{number}"))
                    writer.delete(f"{CONFIGMAPS}/checked-{number}")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
