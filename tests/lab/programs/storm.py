"""A relist storm: clients that list everything repeatedly, like informers that get a 410 after each list.

    python storm.py '{"url": …, "ca": …, "token": …, "paths": […], "clients": 100, "pause": 0.5}'

It prints a line of JSON when all clients have started, and runs until SIGTERM.
"""

import asyncio
import ssl
import sys
from random import Random

import aiohttp
import msgspec
import uvloop

from watchslo.sim import process

READ_AT_ONCE = 1 << 20


class Storm(msgspec.Struct):
    """`clients` clients of the apiserver at `url`; each waits for about `pause` seconds between two lists."""

    url: str
    ca: str
    token: str
    paths: list[str]
    clients: int
    pause: float


async def main(storm: Storm) -> None:
    headers = {"Authorization": f"Bearer {storm.token}"}
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cafile=storm.ca))
    async with aiohttp.ClientSession(storm.url, headers=headers, connector=connector) as session:
        clients = [asyncio.create_task(_relist(session, storm, Random(number))) for number in range(storm.clients)]
        process.announce(clients=storm.clients)
        await process.stopped()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def _relist(session: aiohttp.ClientSession, storm: Storm, random: Random) -> None:
    while True:
        await asyncio.sleep(random.uniform(0.0, 2 * storm.pause))
        try:
            async with session.get(random.choice(storm.paths)) as answer:
                while await answer.content.read(READ_AT_ONCE):
                    pass
        except aiohttp.ClientError:
            continue


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Storm)))
