"""A cluster with steady changes."""

import contextlib
import itertools
import threading
from collections.abc import Iterator

from tests.support.control_plane import ControlPlane
from tests.support.writer import given_up

NAMESPACE = "/api/v1/namespaces/default"


@contextlib.contextmanager
def steady_writes(plane: ControlPlane, resource: str = "configmaps") -> Iterator[None]:
    """Create and delete config maps, about forty changes a second; a write given up does not block a later name.

    `resource` may be another one whose objects need only a name, such as `serviceaccounts`.
    """
    path = f"{NAMESPACE}/{resource}"
    over = threading.Event()

    def write() -> None:
        with plane.writer() as writer:
            for number in itertools.count():
                if over.wait(0.05):
                    return
                with given_up():
                    writer.create(path, {"metadata": {"name": f"checked-{number}"}})
                    writer.delete(f"{path}/checked-{number}")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
