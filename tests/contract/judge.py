"""Requests that watchslo does not send, with their answers classified as watchslo would classify them."""

import asyncio
import json
from typing import Any

from tests.support.writer import StatusError, Writer
from watchslo.watch.decode import decode_status
from watchslo.watch.failure import Failure, Phase, classify_status


async def get(writer: Writer, path: str, **query: str) -> Any:
    """Return the JSON of a GET; raises StatusError."""
    return await asyncio.to_thread(lambda: writer.get(path, **query))


async def refusal(writer: Writer, path: str, phase: Phase = Phase.LIST, **query: str) -> Failure:
    """Return the failure that watchslo makes of a refused GET."""
    try:
        answer = await get(writer, path, **query)
    except StatusError as error:
        body = error.status if isinstance(error.status, bytes) else json.dumps(error.status).encode()
        return classify_status(error.code, decode_status(body), None, phase)
    raise AssertionError(f"{path} with {query} is not refused: {answer}")
