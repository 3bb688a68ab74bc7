"""Makes the status of a snapshot, and encodes it for `/api/v1/status`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import msgspec

from watchslo.api.part import part_of
from watchslo.api.status import SelfCheckStatus, StatusDocument, VerdictStatus, WatchStatus
from watchslo.serve.document import Document, grouped
from watchslo.snapshot import Snapshot, WatchReading
from watchslo.timeline.condition import Condition, Judge
from watchslo.timeline.series import Key
from watchslo.timeline.timeline import Account

END = b"]}"  # of the watches and of the document


def status_of(snapshot: Snapshot, account: Account | None = None) -> StatusDocument:
    """Return the status of a snapshot, with the verdict and the conditions of the newest account."""
    conditions = conditions_in(account)
    return part_of(
        StatusDocument,
        snapshot,
        verdict=part_of(VerdictStatus, account.headline) if account else None,
        trust=part_of(SelfCheckStatus, account.trust) if account else None,
        watches=tuple(_stream(watch, conditions) for watch in snapshot.watches),
    )


def _stream(watch: WatchReading, conditions: Mapping[Key, Condition]) -> WatchStatus:
    return part_of(WatchStatus, watch, condition=condition_of(watch, conditions))


def conditions_in(account: Account | None) -> Mapping[Key, Condition]:
    """Return the condition of each watch as page and verdict have it; empty before the first account."""
    lines = account.lines if account else ()
    return {(line.watch.apiserver, line.watch.watch): line.condition for line in lines}


def condition_of(watch: WatchReading, known: Mapping[Key, Condition]) -> Condition:
    """Return the known condition of a watch, or what its reading alone says."""
    return known.get((watch.apiserver, watch.watch)) or Judge().condition(watch, 0.0).condition


class StatusEncoder:
    """Encodes snapshots as JSON, watch by watch: 900 of them at once would keep the interpreter for 10 ms.

    Use it in one thread: it keeps the text of the watches until their next evaluation.
    """

    def __init__(self) -> None:
        self._streams: tuple[WatchReading, ...] = ()
        self._pieces: tuple[bytes, ...] = ()

    def encode(self, snapshot: Snapshot, account: Account | None = None) -> Document:
        """Return the snapshot as JSON, with the verdict and self-checks of the newest account."""
        if snapshot.watches is not self._streams:
            encoded = _encoded(snapshot.watches, conditions_in(account))
            self._pieces = tuple(b"".join(group) for group in grouped(encoded))
            self._streams = snapshot.watches
        beginning = msgspec.json.encode(status_of(replace(snapshot, watches=()), account)).removesuffix(END)
        return Document((beginning, *self._pieces, END), "application/json")


def _encoded(watches: Iterable[WatchReading], conditions: Mapping[Key, Condition]) -> Iterator[bytes]:
    separator = b""
    for watch in watches:
        yield separator + msgspec.json.encode(_stream(watch, conditions))
        separator = b","
