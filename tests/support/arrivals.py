"""A raw watch that notes when each revision arrives; it shares nothing with `watchslo.kube`."""

import contextlib
import http.client
import json
import re
import socket
import ssl
import time
from typing import Self
from urllib.parse import urlencode, urlsplit

from tests.support.background import Background
from tests.support.control_plane import Apiserver, ControlPlane

PAUSE_SECONDS = 0.1
REVISION = re.compile(rb'"resourceVersion":"(\d+)"')


class WatchArrivals(Background):
    """Watches a collection through one apiserver while its context is open.

    `at` has the monotonic seconds at which each revision arrived. An apiserver ends a watch whose client is slow: the
    next one continues where it ended.
    """

    def __init__(self, plane: ControlPlane, apiserver: Apiserver, collection: str) -> None:
        super().__init__()
        self.at: dict[int, float] = {}
        with apiserver.writer(plane.token) as writer:
            self._newest = writer.revision(collection)
        self._collection = collection
        self._headers = {"Authorization": f"Bearer {plane.token}"}
        self._address = urlsplit(apiserver.url).netloc
        self._tls = ssl.create_default_context(cafile=plane.ca)

    def __enter__(self) -> Self:
        self._open()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        super().__exit__(*error)

    def _open(self) -> None:
        self._connection = http.client.HTTPSConnection(self._address, context=self._tls)
        query = urlencode({"watch": "1", "resourceVersion": self._newest, "timeoutSeconds": "3600"})
        self._connection.request("GET", f"{self._collection}?{query}", headers=self._headers)
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        assert self._answer.status == http.client.OK, self._answer.read()

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._follow()
            self._connection.close()
            if not self._over.wait(PAUSE_SECONDS):
                self._open()

    def _follow(self) -> None:
        while line := self._answer.readline():
            now = time.monotonic()
            found = REVISION.search(line)
            assert found is not None, json.loads(line)
            self._newest = int(found[1])
            self.at.setdefault(self._newest, now)
