"""`python -m benchmarks.count_bytes KUBECONFIG LOOP` opens a watch of configmaps as Tables, and only counts its bytes.

That is the floor of what an event can cost in Python over TLS. LOOP is uvloop, or timed for the loop of the daemon,
which does not decrypt them here: the daemon does that for many events together. The program prints {"watching": true}
when the watch is open.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop
import yaml

from watchslo.event_loop import SocketTransport, TimedEventLoop
from watchslo.kube.representation import Representation

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop, "timed": TimedEventLoop}
PATH = "/api/v1/configmaps?watch=1&includeObject=None"


class ByteCounter(asyncio.Protocol):
    """Counts the bytes of one connection, until it is lost."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self.size = 0

    def data_received(self, data: bytes) -> None:
        self.keep(data)

    def keep(self, data: bytes) -> bool:
        """Count data; return True, because that scheduled no call."""
        if not self.size:
            print(json.dumps({"watching": True}), flush=True)
        self.size += len(data)
        return True

    def connection_lost(self, _: Exception | None) -> None:
        self.lost.set()


async def count(kubeconfig: Any) -> None:
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    address = urlsplit(cluster["server"])
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    transport, counter = await asyncio.get_running_loop().create_connection(
        ByteCounter, address.hostname, address.port, ssl=context
    )
    lines = (
        f"GET {PATH} HTTP/1.1",
        f"Host: {address.netloc}",
        f"Authorization: Bearer {user['token']}",
        f"Accept: {Representation.TABLE.accept_watch}",
    )
    if isinstance(transport, SocketTransport):
        transport.keep_encrypted(counter.keep)
    transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    await counter.lost.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=LOOPS[sys.argv[2]]) as runner:
        runner.run(count(yaml.safe_load(Path(sys.argv[1]).read_text())))
