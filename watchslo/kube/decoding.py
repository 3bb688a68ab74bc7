"""Decodes the answers of apiservers: whatever their bytes are, the result is a value."""

from typing import TypeVar

import msgspec

from watchslo.documents import decode_document
from watchslo.errors import UNDECODABLE
from watchslo.watch.failure import Failure, Reason, because

T = TypeVar("T")


def decode_answer(body: bytes | bytearray, form: type[T]) -> T | Failure:
    """Return the JSON of an answer in this form without odd entries, or the failure `GARBAGE` if it has another one."""
    try:
        return decode_document(body, form)
    except UNDECODABLE:
        return because(Reason.GARBAGE)


def decode_exactly(body: bytes | bytearray, form: type[T]) -> T | Failure:
    """Return the same, but `GARBAGE` for an odd entry too, where a decision without it would be wrong."""
    try:
        return msgspec.json.decode(body, type=form)
    except UNDECODABLE:
        return because(Reason.GARBAGE)
