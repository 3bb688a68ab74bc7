"""What the simulator's processes share: listening, control requests, announcing their addresses, and stopping."""

import asyncio
import os
import signal
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from watchslo.errors import ConfigError

_PARENT = os.getppid()
"""Read at import: if the parent exits later, another process becomes the parent."""
_PARENT_CHECK_INTERVAL_SECONDS = 0.25
_SHUTDOWN_TIMEOUT_SECONDS = 0.1
"""How long open requests may continue when the process ends."""


async def listen(
    application: web.Application, host: str, port: int, tls: ssl.SSLContext | None = None
) -> web.AppRunner:
    """Serve an application and return its runner, which has the `addresses`; the caller must call `cleanup()`."""
    runner = web.AppRunner(
        application,
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=_SHUTDOWN_TIMEOUT_SECONDS,
        handle_signals=False,
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=tls).start()
    return runner


def posted(kind: type[Any], act: Callable[[Any], Awaitable[Any]]) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return a handler that decodes a body of this type, passes it to `act`, and answers with the result as JSON."""

    async def handle(request: web.Request) -> web.Response:
        try:
            return answer(await act(msgspec.json.decode(await request.read() or b"{}", type=kind)))
        except (ConfigError, msgspec.MsgspecError) as problem:
            return answer({"error": str(problem)}, code=400)

    return handle


def answer(document: Any, code: int = 200) -> web.Response:
    """Return a document as JSON."""
    return web.Response(body=msgspec.json.encode(document), status=code, content_type="application/json")


def announce(**facts: object) -> None:
    """Print one line of JSON: the process is ready, and these are its addresses."""
    print(msgspec.json.encode(facts).decode(), flush=True)  # noqa: T201 - the parent process reads this line


async def stopped() -> None:
    """Wait for SIGTERM, SIGINT or the exit of the parent process."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    while not stop.is_set() and os.getppid() == _PARENT:
        try:
            await asyncio.wait_for(stop.wait(), _PARENT_CHECK_INTERVAL_SECONDS)
        except TimeoutError:
            continue
