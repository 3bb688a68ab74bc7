"""A proxy before a real apiserver that makes a revision the time of its commit in nanoseconds, as on GKE.

    python commit_times.py '{"to": "https://127.0.0.1:6443", "ca": "ca.crt", "etcd": "http://127.0.0.1:2379", ...}'

It rewrites revisions in all answers, and back in all requests. It learns from a watch on etcd when each revision was
committed, and holds back each answer until it knows that of all its revisions: so clients see a storage that commits
when etcd reports it. When the proxy ends, the file `notes` has these revisions and the times of the commits. Clients
speak plain HTTP to it.
"""

import asyncio
import base64
import re
import ssl
import sys
import time
from bisect import bisect_right
from pathlib import Path

import aiohttp
import msgspec
import uvloop
from aiohttp import web
from yarl import URL

from watchslo.sim import process

ASKED = re.compile(r"(?<=resourceVersion=)[1-9]\d*")
ANSWERED = re.compile(
    rb'(?<="resourceVersion":")[1-9]\d*|(?<=too old resource version: )\d+ \(\d+|'
    rb"(?<=Too large resource version: )\d+, current: \d+"
)
NUMBER = re.compile(rb"\d+")
NOT_FORWARDED = {"host", "accept-encoding", "connection", "content-length", "transfer-encoding"}
LONGEST_LINE = 1 << 24
OLD_NANOSECONDS = 1_000_000  # between two revisions that are older than the proxy


class Settings(msgspec.Struct, frozen=True):
    """The apiserver, its CA and its etcd.

    The clock of the storage is `ahead` of this machine's, in seconds. If `reads`, a consistent read has the revision of
    its own time; otherwise, of the last commit.
    """

    to: str
    ca: str
    etcd: str
    notes: str = ""
    ahead: float = 0.0
    reads: bool = False


class CommitTimes:
    """The commit time of each revision of etcd, in nanoseconds; those before the first one are made up."""

    def __init__(self, ahead: float) -> None:
        self.seen: list[float] = []  # in monotonic seconds, of each revision since the first
        self.times: list[int] = []
        self._unix = time.time() - time.monotonic() + ahead
        self._first = 0
        self._newest = 0  # of all times, of commits and of reads
        self._more = asyncio.Event()

    def learn(self, revision: int) -> None:
        """Note that all revisions up to this one are committed; time is now."""
        now = time.monotonic()
        self._first = self._first or revision
        while self._first + len(self.times) <= revision:
            self.seen.append(now)
            self.times.append(self._next(now))
        self._more.set()
        self._more = asyncio.Event()

    async def reached(self, revision: int) -> None:
        """Wait until the commit of a revision is known."""
        while self._first + len(self.times) <= revision:
            await self._more.wait()

    def of(self, revision: int) -> int:
        """Return the time of a commit."""
        place = revision - self._first
        return self.times[place] if place >= 0 else self.times[0] + OLD_NANOSECONDS * place

    def of_read(self, revision: int) -> int:
        """Return the time of a read that has returned this revision: before the next commit."""
        place = revision + 1 - self._first
        return self.times[place] - 1 if place < len(self.times) else self._next(time.monotonic())

    def revision(self, nanoseconds: int) -> int:
        """Return the last revision that was committed by this time."""
        place = bisect_right(self.times, nanoseconds) - 1
        old = (nanoseconds - self.times[0]) // OLD_NANOSECONDS
        return self._first + place if place >= 0 else max(1, self._first + old)

    def _next(self, now: float) -> int:
        self._newest = max(self._newest + 1, round((now + self._unix) * 1e9))
        return self._newest


class Proxy:
    """Forwards requests to the apiserver through `session`."""

    def __init__(self, settings: Settings, session: aiohttp.ClientSession) -> None:
        self.times = CommitTimes(settings.ahead)
        self._settings = settings
        self._session = session

    async def follow(self, following: asyncio.Event) -> None:
        """Learn the commits from etcd, all of them: a list may have the revision of any; say when this has begun."""
        everything = base64.b64encode(b"\0").decode()
        create = {"create_request": {"key": everything, "range_end": everything}}
        async with self._session.post(f"{self._settings.etcd}/v3/watch", json=create) as answer:
            async for line in answer.content:
                result = msgspec.json.decode(line)["result"]
                for event in result.get("events", ()):
                    self.times.learn(int(event["kv"]["mod_revision"]))
                if result.get("created"):
                    self.times.learn(int(result["header"]["revision"]))
                    following.set()

    async def forward(self, request: web.Request) -> web.StreamResponse:
        target = ASKED.sub(lambda found: str(self.times.revision(int(found[0]))), request.raw_path)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_FORWARDED}
        headers["Accept-Encoding"] = "identity"
        body = await request.read() or None  # aiohttp would say that no bytes are application/octet-stream
        async with self._session.request(
            request.method, URL(self._settings.to + target, encoded=True), headers=headers, data=body
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_FORWARDED}
            if "watch=1" in request.query_string:
                response = web.StreamResponse(status=answer.status, headers=kept)
                await response.prepare(request)
                async for line in answer.content:
                    await response.write(await self._rewritten(line))
                return response
            is_read = self._settings.reads and not {"resourceVersion", "continue"} & {*request.query}
            rewritten = await self._rewritten(await answer.read(), is_read=is_read)
            return web.Response(status=answer.status, headers=kept, body=rewritten)

    async def _rewritten(self, body: bytes, *, is_read: bool = False) -> bytes:
        """Return a body with the times of its revisions; the first one is that of the list."""
        revisions = [int(number) for part in ANSWERED.findall(body) for number in NUMBER.findall(part)]
        await self.times.reached(max(revisions, default=0))
        if is_read and b'List"' in body[:100] + b'Table"' and revisions:
            body = ANSWERED.sub(b"%d" % self.times.of_read(revisions[0]), body, count=1)
            first = ANSWERED.search(body)
            assert first
            return body[: first.end()] + self._replaced(body[first.end() :])
        return self._replaced(body)

    def _replaced(self, body: bytes) -> bytes:
        return ANSWERED.sub(lambda part: NUMBER.sub(lambda one: b"%d" % self.times.of(int(one[0])), part[0]), body)


async def main(settings: Settings) -> bytes:
    """Forward until a signal stops the process; return the notes."""
    async with aiohttp.ClientSession(
        read_bufsize=LONGEST_LINE,
        timeout=aiohttp.ClientTimeout(total=None),
        connector=aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cafile=settings.ca)),
    ) as session:
        proxy, following = Proxy(settings, session), asyncio.Event()
        learning = asyncio.create_task(proxy.follow(following))
        await following.wait()
        application = web.Application(client_max_size=LONGEST_LINE)
        application.router.add_route("*", "/{path:.*}", proxy.forward)
        runner = await process.listen(application, "127.0.0.1", 0)
        process.announce(url=f"http://127.0.0.1:{runner.addresses[0][1]}")
        await process.stopped()
        await runner.cleanup()
        learning.cancel()
    return msgspec.json.encode({"revision": proxy.times.times, "at": proxy.times.seen})


if __name__ == "__main__":
    parsed = msgspec.json.decode(sys.argv[1], type=Settings)
    noted = uvloop.run(main(parsed))
    if parsed.notes:
        Path(parsed.notes).write_bytes(noted)
