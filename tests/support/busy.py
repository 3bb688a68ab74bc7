"""A cluster with steady changes."""

import contextlib
import itertools
from collections.abc import Iterator

from tests.support.background import repeated
from tests.support.control_plane import ControlPlane
from tests.support.writer import given_up

NAMESPACE = "/api/v1/namespaces/default"
PAUSE_SECONDS = 0.05


@contextlib.contextmanager
def steady_writes(plane: ControlPlane, resource: str = "configmaps") -> Iterator[None]:
    """Create and delete config maps, about forty changes a second; a write given up does not block a later name.

    `resource` may be another one whose objects need only a name, such as `serviceaccounts`.
    """
    path, numbers = f"{NAMESPACE}/{resource}", itertools.count()

    def write() -> None:
        name = f"checked-{next(numbers)}"
        with given_up():
            writer.create(path, {"metadata": {"name": name}})
            writer.delete(f"{path}/{name}")

    with plane.writer() as writer, repeated(PAUSE_SECONDS, write):
        yield
