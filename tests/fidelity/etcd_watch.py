"""A watch on etcd itself, by its JSON gateway: when etcd reports each revision."""

import base64
import time
from collections.abc import Callable

import aiohttp
import msgspec

KEYS = {"key": b"/registry/", "range_end": b"/registry0"}


def new_session() -> aiohttp.ClientSession:
    """Return a session for watches with long lines and without an end."""
    return aiohttp.ClientSession(read_bufsize=1 << 24, timeout=aiohttp.ClientTimeout(total=None))


async def follow_etcd(etcd: str, note: Callable[[int, float], None]) -> None:
    """Note each revision and when etcd reports it (monotonic seconds): it is committed by then."""
    create = {"create_request": {name: base64.b64encode(key).decode() for name, key in KEYS.items()}}
    async with new_session() as session, session.post(f"{etcd}/v3/watch", json=create) as answer:
        async for line in answer.content:
            now = time.monotonic()
            for event in msgspec.json.decode(line)["result"].get("events", ()):
                note(int(event["kv"]["mod_revision"]), now)
