"""The kind of a storage: from the revisions of its ticks, and from what its apiserver reveals.

A *sequence* counts commits, as etcd does. A *timestamp* is the time of the commit in nanoseconds of Unix time, as on
GKE: no counter reaches such numbers, and none of them is ever ahead of the storage's clock. The clocks of the storage
and of this machine may differ by any amount: what counts is that revisions grow, but not faster than time passes.

*kine*, which k3s uses with SQL databases, counts as etcd does and emulates its API. Two things differ. PostgreSQL
assigns a revision before its commit, so that a tick may have a revision whose commit is shown to others a little later.
And a server finds the commits of other servers by a poll: see `watchslo.latency.polling`.

Both refuse a watch from a compacted revision, without reading anything of it. etcd looks at watches that begin in the
past every 100 ms (etcd 3.6, storage/mvcc/watchable_store.go, `watchResyncPeriod`), so its refusals come in step with
each other, whenever they are asked for. kine looks at each watch at once, so a refusal comes as long after its request
as the database takes. Watches that are sent out of step tell one from the other, however long the history is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from watchslo.model import Reading
from watchslo.snapshot import StorageKind

LEAST_TIMESTAMP = 10**18  # September 2001; a counter of a million commits a second needs 30,000 years for that
MOST_COUNTED = 10**15  # a counter of a million commits a second needs 30 years for that
GROWN_SECONDS = 20.0  # after which revisions are known to be times: a quarter faster than time would be refuted
STALE_SECONDS = 5.0  # an empty list may carry the last commit, which is rarely older; a clock may be set by less
RESYNC_SECONDS = 0.1  # between two looks of etcd at watches that begin in the past
PAUSES_SECONDS = tuple(RESYNC_SECONDS + 0.0057 * n for n in (0, 9, 4, 13, 6, 1, 11, 15, 3, 8, 12, 5, 14, 2, 10, 7))
"""From each refusal to the next watch: out of step with etcd, and no two of them alike."""
NEAR_SECONDS = 0.02  # what lies within this is alike; of the pauses, four do
MOST_REFUSALS = 13  # of those after the pauses: the network or this machine may have delayed the others
COMMIT_SPREAD_SECONDS = 0.1  # from a tick with a revision to its commit, with PostgreSQL: docs/fidelity.md has figures

StorageSetting = Literal["auto", "etcd", "kine", "kine-sqlite", "timestamp", "unproven"]
"""What the configuration says of the storage."""

_STATED: dict[StorageSetting, StorageKind] = {
    "etcd": StorageKind.SEQUENCE,
    "kine": StorageKind.KINE,
    "kine-sqlite": StorageKind.KINE,
    "timestamp": StorageKind.TIMESTAMP,
    "unproven": StorageKind.UNKNOWN,
}

MAY_POLL = (StorageKind.KINE, StorageKind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class ApiserverStorage:
    """What is known of the storage of one apiserver.

    `polls` says that it shares a database with other servers, and `may_poll` that it may do so. A revision that a tick
    returned is committed at most `commit_spread` seconds after the answer.
    """

    kind: StorageKind = StorageKind.UNKNOWN
    may_poll: bool = True
    polls: bool = False
    commit_spread: float = 0.0


def storage_of(stated: StorageSetting, found: StorageKind, servers: int | None) -> ApiserverStorage:
    """Return what is known of a storage.

    `stated` is what the configuration says, `found` what the apiserver revealed, and `servers` the number of apiservers
    of the cluster, if known. Several of them share a database, because SQLite serves one only.
    """
    kind = _STATED.get(stated, found)
    may_poll = kind in MAY_POLL and stated != "kine-sqlite" and servers != 1  # a single server has all the commits
    if kind is not StorageKind.KINE or stated == "kine-sqlite":
        return ApiserverStorage(kind, may_poll=may_poll)
    polls = may_poll and servers is not None
    return ApiserverStorage(kind, may_poll=may_poll, polls=polls, commit_spread=COMMIT_SPREAD_SECONDS)


def unproven_storage(version: str, stated: StorageSetting, found: StorageKind) -> str | None:
    """Return why nothing is proven of the revisions of an apiserver of this version, or None.

    `stated` and `found` are as for `storage_of`.
    """
    if stated == "unproven":
        return "the configuration says that its revisions prove nothing"
    if stated == "auto" and found is StorageKind.UNKNOWN and "+k3s" in version:
        return (
            "k3s stores objects in etcd or in kine, and it is not known in which: state it in clock.storage, or wait "
            "until something is compacted, and permit `list` and `watch` of events in the namespace of the ticks"
        )
    return None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A watch from a compacted revision: when it was sent, and when its refusal arrived, in monotonic seconds."""

    sent: float
    arrived: float


def kind_by_refusals(refusals: Sequence[Refusal]) -> StorageKind:
    """Return the kind of a storage that refused watches, each of them sent after one of `PAUSES_SECONDS`.

    It is unknown if the refusals came neither in step with each other nor always as long after their requests, or both.
    """
    steps = [later.arrived - earlier.arrived for earlier, later in pairwise(refusals)]
    waits = sorted(refusal.arrived - refusal.sent for refusal in refusals[1:])
    half = NEAR_SECONDS / 2
    in_step = sum((step + half) % RESYNC_SECONDS <= NEAR_SECONDS for step in steps) >= MOST_REFUSALS
    alike = len(waits) >= MOST_REFUSALS and any(
        last - first <= NEAR_SECONDS for first, last in zip(waits, waits[MOST_REFUSALS - 1 :], strict=False)
    )
    if in_step is alike:
        return StorageKind.UNKNOWN
    return StorageKind.SEQUENCE if in_step else StorageKind.KINE


class KindDetector:
    """Finds out what kind of revisions the ticks of a domain return: `unknown` until that is proven, or `stated`."""

    def __init__(self, stated: StorageSetting = "auto") -> None:
        self._is_stated = stated in _STATED
        self.kind = _STATED.get(stated, StorageKind.UNKNOWN)
        self._first: tuple[int, float] | None = None  # a revision, and by how many seconds it was ahead of this machine

    def observe(self, tick: Reading) -> None:
        """Take in a tick."""
        if self._is_stated:
            return
        if tick.revision < LEAST_TIMESTAMP:
            self._first = None
            self.kind = StorageKind.SEQUENCE if tick.revision <= MOST_COUNTED else StorageKind.UNKNOWN
            return
        ahead = tick.revision / 1e9 - tick.answered
        if self._first is None or ahead > self._first[1] + STALE_SECONDS:
            self._first = tick.revision, ahead
            self.kind = StorageKind.UNKNOWN
        elif tick.revision - self._first[0] >= GROWN_SECONDS * 1e9:
            self.kind = StorageKind.TIMESTAMP
