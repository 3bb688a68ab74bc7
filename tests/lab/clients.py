"""Clients of the real cluster: writers, an informer that starts again and again, and a watch without a reader."""

import contextlib
import http.client
import itertools
import json
import ssl
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from tests.support.background import Background
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


class Client(Background):
    """Repeats an action in a thread while its context is open; a failed action is not retried."""

    def __init__(self, every: float) -> None:
        super().__init__()
        self._every = every

    @abstractmethod
    def act(self, number: int) -> None:
        """Do the action once."""

    def _run(self) -> None:
        for number in itertools.count():
            with contextlib.suppress(OSError, http.client.HTTPException, StatusError):
                self.act(number)
            if self._over.wait(self._every):
                return


class Putting(Client):
    """Puts config maps directly into etcd, so that a late apiserver does not slow the writes."""

    def __init__(self, etcd: Etcd) -> None:
        super().__init__(WRITE_SECONDS)
        self._etcd = etcd

    def act(self, number: int) -> None:
        name = f"busy-{number % OBJECTS}"
        metadata = {"name": name, "namespace": "default", "uid": name, "annotations": {"changed": str(number)}}
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        self._etcd.put(f"/registry/configmaps/default/{name}", value)


class Creating(Client):
    """Creates service accounts; the apiserver sets their creation times."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(CREATE_SECONDS)
        self._plane = plane

    def act(self, number: int) -> None:
        with self._plane.writer() as writer:
            writer.create(ACCOUNTS, {"metadata": {"name": f"new-{number}"}})


class Starting(Client):
    """Starts as informers do: with lists from the cache and from etcd, and with a streamed list."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(START_SECONDS)
        self._plane = plane

    def act(self, number: int) -> None:
        del number
        with self._plane.writer() as writer:
            writer.get(NAMESPACES, resourceVersion="0")
            writer.get(NAMESPACES)
            for how in ({"resourceVersion": "0"}, STREAMED):
                with contextlib.suppress(json.JSONDecodeError):  # one document for each event
                    writer.get(NAMESPACES, watch="1", timeoutSeconds="1", **how)


class RollingOut(Client):
    """Rolls out a deployment: each time, all its pods are replaced, scheduled and started."""

    def __init__(self, controllers: Controllers) -> None:
        super().__init__(ROLL_OUT_SECONDS)
        self._controllers = controllers

    def act(self, number: int) -> None:
        self._controllers.roll_out(str(number))


class HotLooping(Client):
    """Changes one object without a pause, as a controller does that fights with another one."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(0.0)
        self._writer = plane.writer()
        self._path = f"{CORE}/configmaps/{HOT}"
        self._writer.create(f"{CORE}/configmaps", configmap(HOT))

    def act(self, number: int) -> None:
        self._writer.patch(self._path, {"data": {"number": str(number)}})

    def __exit__(self, *_: object) -> None:
        super().__exit__(*_)
        self._writer.delete(self._path)
        self._writer.close()


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
