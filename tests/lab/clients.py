"""Clients of the real cluster: writers, an informer that starts again and again, and a watch without a reader."""

import contextlib
import http.client
import itertools
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tests.support.background import repeated
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.controllers import Controllers
from tests.support.unread import unread_get
from tests.support.writer import StatusError, configmap

CORE = "/api/v1/namespaces/default"
NAMESPACES, TEMPLATES, ACCOUNTS = "/api/v1/namespaces", f"{CORE}/podtemplates", f"{CORE}/serviceaccounts"
WRITE_SECONDS, CREATE_SECONDS, START_SECONDS, ROLL_OUT_SECONDS = 0.05, 1.0, 3.0, 30.0
OBJECTS, HOT = 50, "hot"
STREAMED = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
LARGE_OBJECTS, LARGE_BYTES = 200, 100_000  # more than the sockets and the queues of the apiserver can hold


@contextlib.contextmanager
def acting(seconds: float, act: Callable[[int], object]) -> Iterator[None]:
    """Repeat an action, with the number of the time, while the context is open; a failed one is not retried."""
    numbers = itertools.count()

    def attempt() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, StatusError):
            act(next(numbers))

    with repeated(seconds, attempt):
        yield


def putting(etcd: Etcd) -> AbstractContextManager[None]:
    """Put config maps directly into etcd, so that a late apiserver does not slow the writes."""

    def put(number: int) -> None:
        name = f"busy-{number % OBJECTS}"
        metadata = {"name": name, "namespace": "default", "uid": name, "annotations": {"changed": str(number)}}
        etcd.put(
            f"/registry/configmaps/default/{name}", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        )

    return acting(WRITE_SECONDS, put)


def creating(plane: ControlPlane) -> AbstractContextManager[None]:
    """Create service accounts; the apiserver sets their creation times."""

    def create(number: int) -> None:
        with plane.writer() as writer:
            writer.create(ACCOUNTS, {"metadata": {"name": f"new-{number}"}})

    return acting(CREATE_SECONDS, create)


def starting(plane: ControlPlane) -> AbstractContextManager[None]:
    """Start as informers do: with lists from the cache and from etcd, and with a streamed list."""

    def start(_: int) -> None:
        with plane.writer() as writer:
            writer.get(NAMESPACES, resourceVersion="0")
            writer.get(NAMESPACES)
            for how in ({"resourceVersion": "0"}, STREAMED):
                with contextlib.suppress(json.JSONDecodeError):  # one document for each event
                    writer.get(NAMESPACES, watch="1", timeoutSeconds="1", **how)

    return acting(START_SECONDS, start)


def rolling_out(controllers: Controllers) -> AbstractContextManager[None]:
    """Roll out a deployment again and again: each time, all its pods are replaced, scheduled and started."""
    return acting(ROLL_OUT_SECONDS, lambda number: controllers.roll_out(str(number)))


@contextlib.contextmanager
def hot_looping(plane: ControlPlane) -> Iterator[None]:
    """Change one object without a pause, as a controller does that fights with another one."""
    collection = f"{CORE}/configmaps"
    with plane.writer() as writer:
        writer.create(collection, configmap(HOT))
        with acting(0.0, lambda number: writer.patch(f"{collection}/{HOT}", {"data": {"number": str(number)}})):
            yield
        writer.delete(f"{collection}/{HOT}")


@contextlib.contextmanager
def unread_watch(plane: ControlPlane) -> Iterator[None]:
    """Open a watch and read nothing from it while large objects are created, so that the apiserver closes it."""
    with contextlib.closing(_open_watch(plane)), plane.writer() as writer:
        for number in range(LARGE_OBJECTS):
            writer.create(TEMPLATES, _template(f"large-{number}"))
        yield


def _open_watch(plane: ControlPlane) -> ssl.SSLSocket:
    connection = unread_get(plane, f"{TEMPLATES}?watch=1", plane.token)
    assert b" 200 " in connection.recv(20)
    return connection


def _template(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.invalid/none:1"}
    return {
        "metadata": {"name": name, "annotations": {"filling": "x" * LARGE_BYTES}},
        "template": {"spec": {"containers": [container]}},
    }
