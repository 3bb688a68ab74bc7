"""What an answer means that cannot be used: the failure, with what may be quoted of the server's message."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus

import aiohttp

from watchslo.kube.call import Call
from watchslo.kube.connections import address_of
from watchslo.kube.network_failure import FAULTS, redirect_target
from watchslo.kube.representation import JSON, PROTOBUF
from watchslo.watch.decode import ApiStatus, decode_status
from watchslo.watch.failure import (
    Failure,
    Reason,
    because,
    classify_status,
    parse_retry_after,
)
from watchslo.watch.protobuf import MAGIC, decode_protobuf_status

DONE = (HTTPStatus.OK, HTTPStatus.CREATED)
LONGEST_ERROR_BYTES = 64 * 2**10
TakePiece = Callable[[bytes], Awaitable[object]]
"""Takes the next bytes of a page; the rest is read when it returns."""
LONGEST_QUOTE = 300  # characters of the server's message
_INTERNAL = (Reason.SERVER_ERROR, Reason.CONVERSION)


async def refusal(response: aiohttp.ClientResponse, call: Call) -> Failure:
    """Return the failure of an answer that cannot be used, with the message of the server."""
    body, phase = b"", call.phase
    try:
        if response.status in DONE and (response.content_type, call.media_type) == (JSON, PROTOBUF):
            return because(Reason.NOT_ACCEPTABLE, phase=phase)  # the server ignores what was requested
        if response.status in DONE:
            wanted = "JSON" if call.media_type == JSON else call.media_type
            sent = f"{address_of(response)} sends {response.content_type} instead of {wanted}"
            return replace(
                because(Reason.GARBAGE, phase=phase, status=response.status),
                message=f"{sent}: it is not an apiserver.",
            )
        with contextlib.suppress(*FAULTS):
            body = bytes(await read_body(response, LONGEST_ERROR_BYTES))
    finally:
        response.release()
    status, text = _read_status(body)
    failure = classify_status(response.status, status, parse_retry_after(response.headers.get("Retry-After")), phase)
    if failure.reason is Reason.UNEXPECTED_STATUS:
        return replace(failure, message=_unexpected(response))
    quote = _quotable(failure.reason, text)
    return replace(failure, message=f"{failure.message} It says: {quote}") if quote else failure


def _unexpected(response: aiohttp.ClientResponse) -> str:
    """Return what an answer is whose status apiservers do not send; where it leads is shown without its query."""
    said = f"{address_of(response)} answers {response.status}"
    if target := redirect_target(response):
        return f"{said} and redirects to {target}: a proxy may want a login; write the address of the apiserver."
    return f"{said}, which is no status of an apiserver; check the address, and the proxies on the way."


def _read_status(body: bytes) -> tuple[ApiStatus | None, str]:
    """Return the Status of an HTTP error if there is one, and the server's message.

    An apiserver sends errors in the representation that was requested, if it got so far as to look at that.
    """
    is_protobuf = body.startswith(MAGIC)
    status = decode_protobuf_status(body) if is_protobuf else decode_status(body)
    if status is not None:
        return status, status.message or ""
    return None, "" if is_protobuf else body.decode(errors="replace")


def _quotable(reason: Reason, text: str) -> str:
    """Return the server's message, or "" if it may name an object or is not plain text.

    A proxy's page is not plain text. The message of an internal error may name an object, by its key in etcd or in the
    text of a webhook, whose own name may be in it; messages of etcd itself name none. All other messages are about the
    request.
    """
    internal = reason in _INTERNAL and not text.startswith("etcdserver: ")
    return "" if internal or "<" in text or not text.isascii() else " ".join(text.split())[:LONGEST_QUOTE]


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytearray:
    """Return the body, or only its beginning (more than `limit` bytes) if it is longer."""
    body = bytearray()
    while len(body) <= limit and (chunk := await response.content.readany()):
        body += chunk
    return body


async def pass_body(response: aiohttp.ClientResponse, take: TakePiece, limit: int) -> bool:
    """Pass the body to `take`, in pieces of at most 64 KiB; return False if it is longer than `limit` bytes."""
    size = 0
    while piece := await response.content.readany():
        size += len(piece)
        if size > limit:
            return False
        await take(piece)
    return True
