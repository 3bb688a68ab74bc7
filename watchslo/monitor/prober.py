"""Reads caches (placeholder until the prober is there)."""

import asyncio
from collections.abc import Callable
from typing import Any


class Prober:
    """Reads nothing yet."""

    def __init__(self, streams: Callable[[], Any], budget: Callable[[], float], random: Callable[[], float]) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()
