"""A cluster with steady changes."""

import contextlib
import itertools
import threading
from collections.abc import Iterator
from http import HTTPStatus

from tests.support.control_plane import ControlPlane
from tests.support.writer import StatusError, configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@contextlib.contextmanager
def steady_writes(plane: ControlPlane) -> Iterator[None]:
    """Create and delete config maps, about forty changes a second.

    An apiserver waits for a write for 34 s whatever its flags say, which can be too short at idle priority. Such a
    write may be committed or not, so each config map has a name of its own.
    """
    over = threading.Event()

    def write() -> None:
        with plane.writer() as writer:
            for number in itertools.count():
                if over.wait(0.05):
                    return
                try:
                    writer.create(CONFIGMAPS, configmap(f"checked-{number}"))
                    writer.delete(f"{CONFIGMAPS}/checked-{number}")
                except StatusError as error:
                    if error.code != HTTPStatus.GATEWAY_TIMEOUT:
                        raise

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
