"""An HTTP client of the simulated apiserver for tests; it shares no code with watchslo."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TIMEOUT = aiohttp.ClientTimeout(total=7200)  # longer than any watch
RETRY_SECONDS = 0.01


@dataclass(frozen=True)
class Answer:
    code: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def revision(self) -> int:
        return int(self.json["metadata"]["resourceVersion"])


class Watch:
    """The lines of an open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def line(self) -> bytes:
        return await self.response.content.readline()

    async def event(self) -> tuple[str, Any]:
        event = json.loads(await self.line())
        return event["type"], event["object"]

    async def revision(self) -> int:
        """Return the revision of the next event."""
        _, obj = await self.event()
        return int(obj["metadata"]["resourceVersion"])

    async def rest(self) -> list[str]:
        """Return the types of all events until the watch ends."""
        return [json.loads(line)["type"] async for line in self.response.content]

    async def arrivals(self) -> list[tuple[str, int]]:
        """Return the types of all events until the watch ends, and after how many seconds from now they arrive."""
        began = time.monotonic()
        return [(json.loads(line)["type"], round(time.monotonic() - began)) async for line in self.response.content]


class Api:
    def __init__(self, url: str, session: aiohttp.ClientSession, stack: AsyncExitStack) -> None:
        self.url = url
        self._session = session
        self._stack = stack

    async def get(self, path: str, accept: str = "application/json", **headers: str) -> Answer:
        return await self._request("GET", path, headers={"Accept": accept, **headers})

    async def write(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        data = None if body is None else json.dumps(body)
        return await self._request(method, path, data=data, headers={"Content-Type": content_type})

    async def control(self, path: str, body: Any = None) -> Any:
        answer = await self.write("POST", f"/sim/{path}", body or {})
        assert answer.code == 200, answer.text
        return answer.json

    async def configmap(self, name: str, collection: str = CONFIGMAPS, **labels: str) -> int:
        """Create a ConfigMap and return its revision."""
        return (await self.write("POST", collection, {"metadata": {"name": name, "labels": labels}})).revision

    async def touch(self, path: str, value: str, **labels: str) -> int:
        metadata = {"annotations": {"touched": value}, "labels": labels}
        patched = await self.write("PATCH", path, {"metadata": metadata}, "application/merge-patch+json")
        return patched.revision

    async def newest(self, collection: str = CONFIGMAPS) -> int:
        return (await self.get(f"{collection}?fieldSelector=metadata.name=absent")).revision

    async def watch(self, path: str, accept: str = "application/json") -> Watch:
        response = await self._stack.enter_async_context(
            self._session.get(self.url + path, headers={"Accept": accept}, timeout=TIMEOUT)
        )
        assert response.status == 200, await response.text()
        return Watch(response)

    async def _request(self, method: str, path: str, **more: Any) -> Answer:
        async with self._session.request(method, self.url + path, timeout=TIMEOUT, **more) as response:
            return Answer(response.status, response.headers, await response.text(errors="replace"))


Simulate = Callable[..., Awaitable[Api]]
"""Starts a cluster with the given settings and returns a client of it."""
