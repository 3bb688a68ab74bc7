"""A log of what a control plane does: when each revision is committed, and what each change of an object is.

    python -m tests.fidelity.commit_log '{"etcd": "http://127.0.0.1:2379", "apiserver": "https://…", "notes": "…", …}'

A watch on etcd says by when a revision was committed. Reads of nothing, which etcd answers with its newest revision,
say what was not committed yet. Plain watches of the apiserver, whose delay does not matter, say which change it was.
When it ends, the file `notes` holds all of that.
"""

import asyncio
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvloop

from tests.fidelity.etcd_watch import follow_etcd, new_session
from watchslo.sim import process

READ_GAP_SECONDS = 0.02  # a commit is known to about this much
ABSENT_KEY = "AA=="  # a zero byte
WATCH_SECONDS = 3600


class LogSettings(msgspec.Struct, frozen=True):
    """Where to read: etcd, the apiserver with its CA and a token, and the paths of the collections to watch."""

    etcd: str
    apiserver: str
    ca: str
    token: str
    collections: list[str]
    notes: str


class CommitLog(msgspec.Struct):
    """Commits as etcd reports them, reads of nothing, and the changes of objects: type and object, as JSON.

    A commit is its revision and the time of the report. A read is when it was sent and answered, and its revision.
    What exists at the beginning has the type `INITIAL`. All times are monotonic seconds.
    """

    commits: list[tuple[int, float]] = []
    reads: list[tuple[float, float, int]] = []
    changes: list[dict[str, Any]] = []


async def _read_revisions(etcd: str, log: CommitLog) -> None:
    async with new_session() as session:
        while True:
            sent = time.monotonic()
            body = {"key": ABSENT_KEY, "serializable": True}
            async with session.post(f"{etcd}/v3/kv/range", json=body) as answer:
                found = msgspec.json.decode(await answer.read())
            log.reads.append((sent, time.monotonic(), int(found["header"]["revision"])))
            await asyncio.sleep(READ_GAP_SECONDS)


class _Apiserver:
    """Reads collections of an apiserver."""

    def __init__(self, settings: LogSettings, session: aiohttp.ClientSession, lines: list[bytes]) -> None:
        self._settings = settings
        self._session = session
        self._tls = ssl.create_default_context(cafile=settings.ca)
        self._lines = lines

    async def list_all(self, collection: str, log: CommitLog) -> str:
        """Note the objects that exist, and return the revision of the list."""
        async with self._get(collection) as answer:
            found = msgspec.json.decode(await answer.read())
        kind = found["kind"].removesuffix("List")  # the items of a list do not say it
        log.changes += [{"type": "INITIAL", "object": item | {"kind": kind}} for item in found["items"]]
        return str(found["metadata"]["resourceVersion"])

    async def watch(self, collection: str, revision: str) -> None:
        """Keep the lines of all changes after a revision."""
        query = {"watch": "1", "resourceVersion": revision, "timeoutSeconds": str(WATCH_SECONDS)}
        async with self._get(collection, **query) as answer:
            async for line in answer.content:
                self._lines.append(line)

    def _get(self, collection: str, **query: str) -> Any:
        token = {"Authorization": f"Bearer {self._settings.token}"}
        url = self._settings.apiserver + collection
        return self._session.get(url, params=query, headers=token, ssl=self._tls, raise_for_status=True)


async def main(settings: LogSettings) -> bytes:
    """Record until a signal stops the process; return the notes."""
    log, lines = CommitLog(), list[bytes]()
    async with new_session() as session, asyncio.TaskGroup() as tasks:
        apiserver = _Apiserver(settings, session, lines)
        works = [
            tasks.create_task(follow_etcd(settings.etcd, lambda *commit: log.commits.append(commit))),
            tasks.create_task(_read_revisions(settings.etcd, log)),
        ]
        for collection in settings.collections:
            revision = await apiserver.list_all(collection, log)
            works.append(tasks.create_task(apiserver.watch(collection, revision)))
        process.announce(watches=settings.collections)
        await process.stopped()
        for work in works:
            assert not work.done(), "a watch ended before its time"
            work.cancel()
    log.changes += [msgspec.json.decode(line) for line in lines]
    return msgspec.json.encode(log)


if __name__ == "__main__":
    parsed = msgspec.json.decode(sys.argv[1], type=LogSettings)
    Path(parsed.notes).write_bytes(uvloop.run(main(parsed)))
