"""Compare what the watches of one resource at several apiservers have delivered.

All apiservers of a storage send the same changes, so each watch must have delivered every event that another one has
delivered, up to the newest revision that it knows, be that from an event or from a bookmark.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from watchslo.watch.audit import DELIVERED, Delivered

WITNESSES_NEEDED = 2  # other watches with an event, so that no further read is needed
MOST_COMPARED = DELIVERED  # events of one watch in one comparison: one further read must be able to confirm them all
MOST_MISSING = 1_024  # revisions of one watch in one comparison; more would add no information


@dataclass(frozen=True, slots=True)
class PeerDeliveries:
    """What an open watch has delivered, and the newest revision that it knows."""

    delivered: Delivered
    reached: int


@dataclass(frozen=True, slots=True)
class ComparedWatch:
    """What a comparison found of one watch, by its number.

    Other watches delivered `checked` events. The watch lacks those with the revisions in `proven`, which several others
    delivered, and in `unproven`, which only `witness` did. `first` is the first revision that it delivered itself.
    """

    number: int
    checked: int
    first: int | None
    proven: tuple[int, ...] = ()
    unproven: tuple[int, ...] = ()
    witness: int | None = None


class DeliveryComparison:
    """Compares the watches of one group; each revision is compared once while a watch stays open."""

    def __init__(self) -> None:
        self._compared: dict[int, tuple[int, int]] = {}  # epoch of the deliveries, and the revision reached

    def compare(self, peers: Mapping[int, PeerDeliveries]) -> Iterator[ComparedWatch]:
        """Compare what is new; at least two watches by their numbers. A watch that is not given is forgotten."""
        before, self._compared = self._compared, {}
        for number, peer in peers.items():
            others = {other: deliveries for other, deliveries in peers.items() if other != number}
            epoch, compared = before.get(number, (0, 0))
            lower = max(peer.delivered.floor, compared if epoch == peer.delivered.epoch else 0)
            upper = max(lower, min(peer.reached, max(other.reached for other in others.values())))
            upper = min(upper, peer.delivered.after(lower, MOST_COMPARED) or upper)
            self._compared[number] = peer.delivered.epoch, upper
            if found := _compare(number, peer, others, lower, upper):
                yield found


def _compare(
    number: int, peer: PeerDeliveries, others: Mapping[int, PeerDeliveries], lower: int, upper: int
) -> ComparedWatch | None:
    """Compare the revisions after `lower` and up to `upper`; return None if no other watch delivered any."""
    own = peer.delivered.between(lower, upper)
    theirs = {other: deliveries.delivered.between(lower, upper) for other, deliveries in others.items()}
    seen = Counter[int]()
    if all(revisions == own for revisions in theirs.values()):  # nearly always
        return ComparedWatch(number, len(own), peer.delivered.first) if own else None
    for revisions in theirs.values():
        seen.update(set(revisions))
    if not seen:
        return None
    missing = sorted(seen.keys() - set(own))[:MOST_MISSING]
    proven = tuple(revision for revision in missing if seen[revision] >= WITNESSES_NEEDED)
    unproven = tuple(revision for revision in missing if seen[revision] < WITNESSES_NEEDED)
    witness = next((other for other, revisions in theirs.items() if unproven and unproven[0] in revisions), None)
    return ComparedWatch(number, len(seen), peer.delivered.first, proven, unproven, witness)
