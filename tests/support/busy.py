"""A cluster with steady changes."""

import contextlib
import threading
from collections.abc import Iterator

from tests.support.control_plane import ControlPlane
from tests.support.writer import configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@contextlib.contextmanager
def steady_writes(plane: ControlPlane) -> Iterator[None]:
    """Create and delete a config map, about forty changes a second."""
    over = threading.Event()

    def write() -> None:
        with plane.writer() as writer:
            while not over.wait(0.05):
                writer.create(CONFIGMAPS, configmap("checked"))
                writer.delete(f"{CONFIGMAPS}/checked")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
