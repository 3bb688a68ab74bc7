"""Three watches of the same changes at three apiservers, one of which loses some events: what a comparison finds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from watchslo.snapshot import Guarantee
from watchslo.watch.audit import Delivered, Health
from watchslo.watch.delivery_comparison import DeliveryComparison, PeerDeliveries

WATCHES = (1, 2, 3)
SHARE = 1e-5  # of the events that the lossy watch loses
EVENTS = 500_000  # of each watch: with five losses on average
MOST_AT_ONCE = 200  # events that become due between two steps
PROMPTNESS = {1: 1.0, 2: 0.5, 3: 0.25}  # the chance that a watch delivers at a step
BATCHES = {1: 2 * MOST_AT_ONCE, 2: 4 * MOST_AT_ONCE, 3: 8 * MOST_AT_ONCE}  # events at once; enough to keep up
SAME_RESOURCE = 0.8  # the chance that two revisions in a row are of the watched resource
COMPARED = 0.2  # the chance of a comparison after a step: long before 8,192 events, the most that are remembered

Violation = tuple[int, Guarantee, int]
"""A watch, the guarantee that it broke, and a revision."""


@dataclass(frozen=True, slots=True)
class LossyRun:
    """What one watch lost, and what was found."""

    lost: list[Violation]
    found: list[Violation]

    @property
    def false_alarms(self) -> int:
        """The number of findings that are no loss, or a loss that was found before."""
        return len(self.found) - len({*self.found} & {*self.lost})

    @property
    def missed(self) -> int:
        """The number of losses that were not found."""
        return len({*self.lost} - {*self.found})


class _SentWatch:
    """What one apiserver sends, and how much of it was delivered."""

    def __init__(self) -> None:
        self.sends: list[int] = []
        self.delivered = Delivered()
        self.delivered.begin(0)
        self.health = Health(lambda: 0.5, self.delivered)
        self.reached = 0

    def deliver(self, count: int) -> None:
        """Deliver the next events, in one batch."""
        brought, self.sends = self.sends[:count], self.sends[count:]
        if brought:
            self.delivered.extend(brought)
            self.reached = brought[-1]


def lossy_run(seed: int, events: int = EVENTS, share: float = SHARE) -> LossyRun:
    """Deliver so many events at each of three watches; a random one of them loses a share, but not its first event.

    Each watch delivers in batches of its own size, and the comparison runs at random moments.
    """
    chance = Random(seed)
    loser = chance.choice(WATCHES)
    run = LossyRun([], [])
    watches = {number: _SentWatch() for number in WATCHES}
    comparison = DeliveryComparison()
    for revisions in _due(chance, events):
        kept = [revision for revision in revisions if revision == 1 or chance.random() >= share]
        run.lost.extend((loser, Guarantee.RELIABLE, revision) for revision in sorted({*revisions} - {*kept}))
        for number, watch in watches.items():
            watch.sends += kept if number == loser else revisions
            if chance.random() < PROMPTNESS[number]:
                watch.deliver(chance.randint(1, BATCHES[number]))
        if chance.random() < COMPARED:
            run.found.extend(_violations(comparison, watches))
    for watch in watches.values():
        watch.deliver(len(watch.sends))
    run.found.extend(_violations(comparison, watches))
    return run


def _due(chance: Random, events: int) -> Iterator[list[int]]:
    """Yield the revisions of so many changes, as they become due."""
    revision, left = 0, events
    while left:
        count = min(left, chance.randint(1, MOST_AT_ONCE))
        left -= count
        revisions = []
        for _ in range(count):
            revision += 1 if not revision or chance.random() < SAME_RESOURCE else chance.randint(2, 5)
            revisions.append(revision)
        yield revisions


def _violations(comparison: DeliveryComparison, watches: Mapping[int, _SentWatch]) -> Iterator[Violation]:
    """Compare, and yield what is missing as the daemon counts it."""
    progress = {number: PeerDeliveries(watch.delivered, watch.reached) for number, watch in watches.items()}
    for one in comparison.compare(progress):
        missing = sorted((*one.proven, *one.unproven))
        for violated in watches[one.number].health.lose(missing, one.first):
            revisions = [revision for revision in missing if violated.oldest <= revision <= violated.newest]
            yield from ((one.number, violated.guarantee, revision) for revision in revisions)
