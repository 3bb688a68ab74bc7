"""One client connection through the TCP proxy, together with the proxy's connection to the server."""

import asyncio
import math
import socket
import struct
import time
from collections.abc import Callable
from enum import Enum
from random import Random

from watchslo.sim.delay_law import NO_DELAY, DelayLaw
from watchslo.sim.pipe import Pipe
from watchslo.sim.watch_editor import WatchEditor

_LINGER_ZERO = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing the socket sends RST."""

StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class CloseMode(Enum):
    """How to close a connection: FIN after all sent bytes, or RST at once."""

    FIN = "fin"
    RST = "rst"


class ProxiedConnection:
    """Forwards bytes in both directions between a client and a server.

    `written` is called with the size of each write to the client, and with the arrival time of its bytes (monotonic
    seconds).
    """

    def __init__(
        self,
        law: Callable[[], DelayLaw],
        random: Random,
        written: Callable[[int, float], None],
        client_socket: socket.socket,
        client: StreamPair,
        server: StreamPair,
        editor: WatchEditor,
    ) -> None:
        self.editor = editor
        self.to_client = Pipe(server[0], client[1], law, random, editor.edit, written)
        self.to_server = Pipe(
            client[0], server[1], lambda: NO_DELAY, random, editor.observe, lambda _size, _received: None
        )
        self._socket = client_socket
        self._client = client[1]
        self._server = server[1]
        self._over = asyncio.Event()
        self._idle_timeout = math.inf
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Forward both directions until one of them ends."""
        pipes = (self.to_client, self.to_server)
        ends = [asyncio.create_task(end) for end in (self._over.wait(), *(pipe.write() for pipe in pipes))]
        readers = [asyncio.create_task(pipe.read()) for pipe in pipes]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.cut_when_idle(math.inf)
            self._client.close()
            self._server.transport.abort()
            for task in (*ends, *readers):
                task.cancel()
            await asyncio.gather(*ends, *readers, return_exceptions=True)

    def cut(self, mode: CloseMode) -> None:
        """End the connection; the client receives FIN or RST."""
        if mode is CloseMode.RST:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
            self._client.transport.abort()
        self._over.set()

    def cut_when_idle(self, seconds: float) -> None:
        """Cut the connection after this many seconds without bytes from either side; infinite disables the timeout."""
        self._idle_timeout = seconds
        if self._timer:
            self._timer.cancel()
        self._timer = None
        if seconds < math.inf:
            self._check_idle()

    def _check_idle(self) -> None:
        left = max(self.to_client.read_at, self.to_server.read_at) + self._idle_timeout - time.monotonic()
        if left <= 0:
            self.cut(CloseMode.FIN)
            return
        self._timer = asyncio.get_running_loop().call_later(left + 1e-3, self._check_idle)
