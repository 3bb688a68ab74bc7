"""Sockets need a loop with real time, unlike the other commands."""

import asyncio
from collections.abc import Callable

__all__ = ("pytest_asyncio_loop_factories",)


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"real": asyncio.new_event_loop}
