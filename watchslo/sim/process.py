"""What the simulator's processes share: they listen, say where in a line of JSON, and end with their parent."""

import asyncio
import os
import signal
import ssl

import msgspec
from aiohttp import web

_PARENT = os.getppid()
"""Asked as early as can be: a parent that has gone before leaves another in its place."""
_PARENT_LOOKED_FOR_EVERY = 0.25
"""Seconds."""
_FAREWELL = 0.1
"""Seconds that open requests get when the process ends."""


async def listen(
    application: web.Application, host: str, port: int, tls: ssl.SSLContext | None = None
) -> web.AppRunner:
    """Serve an application; its `addresses` say where, whoever called has to clean up."""
    runner = web.AppRunner(
        application, handler_cancellation=True, access_log=None, shutdown_timeout=_FAREWELL, handle_signals=False
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    return runner


def announce(**facts: object) -> None:
    """Tell whoever started this process that it is ready, and where."""
    print(msgspec.json.encode(facts).decode(), flush=True)  # noqa: T201 - the one line it is started for


async def stopped() -> None:
    """Wait for SIGTERM or SIGINT, or until the process that started this one is gone."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    while not stop.is_set() and os.getppid() == _PARENT:
        try:
            await asyncio.wait_for(stop.wait(), _PARENT_LOOKED_FOR_EVERY)
        except TimeoutError:
            continue
