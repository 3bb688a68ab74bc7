"""The writer during the faults: about sixty changes per second, whatever happens to the apiservers.

    python traffic.py '{"etcd": …, "apiservers": […], "ca": …, "token": …}'

It writes config maps, secrets and service accounts directly to etcd, so that a slow apiserver does not delay them. They
are JSON, which apiservers read in addition to their own format. It creates and deletes pods through the apiservers in
turn, because these writes must pass admission. It prints a line of JSON when it starts, and runs until SIGTERM.
"""

import asyncio
import base64
import ssl
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count, cycle
from random import Random
from typing import Any

import aiohttp
import msgspec
import uvloop

from watchslo.sim import process

PUT_RATES = {"ConfigMap": 15.0, "Secret": 15.0, "ServiceAccount": 10.0}
"""Changes per second of each kind."""
POD_RATE = 10.0
"""Pods created per second; as many are deleted."""
OBJECTS = 20
LIVING = 40
AT_ONCE = 300
"""Writes that may be in flight; further writes are skipped."""
TIMEOUT_SECONDS = 15.0
PODS = "/api/v1/namespaces/default/pods"


class Settings(msgspec.Struct):
    """The addresses to write to, the credentials, and the share of the usual rates."""

    etcd: str
    apiservers: list[str]
    ca: str
    token: str
    share: float = 1.0


class Traffic:
    """Writes at random times."""

    def __init__(self, session: aiohttp.ClientSession, settings: Settings) -> None:
        self._session = session
        self._etcd = settings.etcd
        self._share = settings.share
        self._apiservers = cycle(settings.apiservers)
        self._headers = {"Authorization": f"Bearer {settings.token}"}
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = count()
        self._run = uuid.uuid4().hex[:8]
        self._living: list[str] = []

    async def forever(self) -> None:
        """Write until cancelled."""
        makers = [self._at(rate, partial(self._put, kind)) for kind, rate in PUT_RATES.items()]
        makers += [self._at(POD_RATE, self._create_pod), self._at(POD_RATE, self._delete_pod)]
        await asyncio.gather(*makers)

    async def _at(self, rate: float, write: Callable[[], Awaitable[None]]) -> None:
        random, due = Random(), time.monotonic()
        while True:
            due = max(due, time.monotonic() - 0.5) + random.expovariate(rate * self._share)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if len(self._tasks) < AT_ONCE:
                task = asyncio.create_task(self._try(write))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _try(write: Callable[[], Awaitable[None]]) -> None:
        with suppress(aiohttp.ClientError, TimeoutError):
            await write()

    async def _put(self, kind: str) -> None:
        number = next(self._numbers)
        name = f"traffic-{number % OBJECTS}"
        key = f"/registry/{kind.lower()}s/default/{name}"
        value = base64.b64encode(msgspec.json.encode(_object(kind, name, number))).decode()
        body = {"key": base64.b64encode(key.encode()).decode(), "value": value}
        async with self._session.post(f"{self._etcd}/v3/kv/put", json=body) as answer:
            await answer.read()

    async def _create_pod(self) -> None:
        name = f"traffic-{self._run}-{next(self._numbers)}"
        spec = {"containers": [{"name": "main", "image": "example.invalid/none:1"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        url = f"{next(self._apiservers)}{PODS}"
        async with self._session.post(url, json=body, headers=self._headers) as answer:
            await answer.read()
        self._living.append(name)

    async def _delete_pod(self) -> None:
        if len(self._living) > LIVING:
            url = f"{next(self._apiservers)}{PODS}/{self._living.pop(0)}?gracePeriodSeconds=0"
            async with self._session.delete(url, headers=self._headers) as answer:
                await answer.read()


def _object(kind: str, name: str, number: int) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {name}")),
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "annotations": {"changed": str(number)},
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


async def main(settings: Settings) -> None:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cafile=settings.ca))
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        writing = asyncio.create_task(Traffic(session, settings).forever())
        process.announce(writes=True)
        await process.stopped()
        writing.cancel()


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Settings)))
