"""Small parts of watches and of audits, call by call: transcripts in `tests/golden/watch`."""

from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.support.transcripts import Step, calls, replay, shown, value
from watchslo.model import Reading, Resource
from watchslo.watch import inventory as inventory_module
from watchslo.watch.audit import AuditResult, Delivered, Health
from watchslo.watch.backoff import Backoff
from watchslo.watch.catch_up import BurstFinder, EventBurst
from watchslo.watch.closes import Close, Closes
from watchslo.watch.delivery_comparison import DeliveryComparison, PeerDeliveries
from watchslo.watch.down_time import DownTime
from watchslo.watch.failure import Reason, because
from watchslo.watch.headroom import Accepted, Outcome, Search, TooOld
from watchslo.watch.inventory import Inventory
from watchslo.watch.messages import Unseen
from watchslo.watch.missing_right import MissingRight
from watchslo.watch.proven_idle import ProvenIdle
from watchslo.watch.responsiveness import Responsiveness
from watchslo.watch.strategy import StreamedLists
from watchslo.watch.watch_caches import WatchCaches

GOLDEN = Path(__file__).parents[2] / "golden" / "watch"
TRANSCRIPTS = sorted(GOLDEN.glob("*.txt"))
assert TRANSCRIPTS
REASONS, VERDICTS = frozenset(Reason), frozenset(AuditResult)
TYPES = {"+": "ADDED", "~": "MODIFIED", "-": "DELETED"}


def value_or_failure(word: str) -> Any:
    """Return the failure of a reason."""
    return because(Reason(word)) if word in REASONS else value(word)


def value_or_read(word: str) -> Any:
    """Return the read of a revision, written as `r900` or `r900@1108`."""
    revision, _, sent = word.removeprefix("r").partition("@")
    return (
        Reading("events", float(sent or 1120), float(sent or 1120) + 0.01, int(revision))
        if word[0] == "r"
        else value(word)
    )


def value_or_verdict(word: str) -> Any:
    """Return a verdict, or revisions with the latest times of their commits, written as `8@95,7@93`."""
    if word in VERDICTS:
        return AuditResult(word)
    pairs = (part.split("@") for part in word.split(",") if part)
    return [(int(revision), float(at)) for revision, at in pairs] if "@" in word else value(word)


class ObservedResponsiveness(Responsiveness):
    def look_each_second(self, begin: float, end: float, late: float = 0.0) -> None:
        for second in range(int(end - begin) + 1):
            self.look(begin + second, late)


class AuditedHealth(Health):
    """A health whose random numbers are 0.5."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.5)

    def deliver(self, revisions: Sequence[int]) -> None:
        self.delivered.extend(revisions)

    def begin(self, revision: int) -> None:
        self.delivered.begin(revision)

    def reopened(self, withheld: Sequence[tuple[int, float]], revision: int, begin: int, end: int) -> list[int]:
        """Find a stall in each of these seconds; return those in which the watch is reopened."""
        return [second for second in range(begin, end + 1) if self.stalled(withheld, revision, float(second))]


class Apiserver(Closes):
    """The closes of one apiserver."""

    def __init__(self) -> None:
        super().__init__()
        self._explained: list[str] = []

    def close(
        self, stream: int, at: float = 0.0, *, watches: int = 10, behind: bool = False, custom: bool = False
    ) -> None:
        def tell(reason: Reason) -> None:
            self._explained.append(f"{stream} {reason}")

        self.closed(Close(stream, at, watches, behind, custom, tell))

    def explained(self, now: float) -> list[str]:
        self.settle(now)
        return self._explained


class RevisionSearch(Search):
    """A search that takes the outcome of each of its watches."""

    def accepted(self) -> None:
        self.observe(self.next or 0, Accepted())

    def refused(self, oldest: int | None = None) -> None:
        """Take a refusal, which may name the oldest revision."""
        self.observe(self.next or 0, TooOld(oldest))


class Stock(Inventory):
    """An inventory of objects that are letters; an event is written as `+a11`, `~a11` or `-a11`."""

    def show(self, *objects: str) -> None:
        self.list([one[0] for one in objects], [one[1:] for one in objects])

    def bring(self, *events: str) -> tuple[int, ...] | None:
        """Return the revisions of events with a wrong type; None if that is not known."""
        return self.apply(
            [TYPES[one[0]] for one in events], [one[1] for one in events], [int(one[2:]) for one in events]
        )

    def relist(self, revision: int, *objects: str) -> Unseen | None:
        self.begin()
        self.show(*objects)
        return self.finish(revision, delivered=revision)

    def count(self) -> int:
        return len(self)


class Peers:
    """Watches of one resource at several apiservers, by their numbers."""

    def __init__(self) -> None:
        self._comparison = DeliveryComparison()
        self._peers: dict[int, PeerDeliveries] = {}

    def open(self, number: int, floor: int = 0) -> None:
        known = self._peers.get(number)
        delivered = Delivered() if known is None else known.delivered
        delivered.begin(floor)
        self._peers[number] = PeerDeliveries(delivered, floor)

    def deliver(self, number: int, revisions: Sequence[int]) -> None:
        delivered = self._peers[number].delivered
        delivered.extend(revisions)
        self.reach(number, max(revisions))

    def reach(self, number: int, revision: int) -> None:
        self._peers[number] = PeerDeliveries(self._peers[number].delivered, revision)

    def compare(self) -> str:
        return "\n".join(map(shown, self._comparison.compare(self._peers))) or "nothing new"


class Caches(WatchCaches):
    """The watch caches of one apiserver; a refusal is `cache` or `storage`, and `silent` if it names neither."""

    OUTCOMES: ClassVar[dict[str, Outcome | None]] = {
        "cache": TooOld(236),
        "storage": TooOld(None, by_storage=True),
        "silent": TooOld(None),
        "accepted": Accepted(),
        "failed": None,
    }
    EVENTS: ClassVar[dict[str, Resource]] = {
        "events": Resource("", "v1", "events", namespaced=True),
        "new-events": Resource("events.k8s.io", "v1", "events", namespaced=True),
    }

    def see(self, name: str, *outcomes: str, single: bool = True, bookmarks: bool = False) -> str:
        """Return what is known of the cache of a resource after watches with these outcomes."""
        for outcome in outcomes:
            self.observe(self.resource(name), self.OUTCOMES[outcome], is_single=single, bookmarks=bookmarks)
        known = "found" if self.is_found(self.resource(name)) else "assumed"
        return f"{known}: {shown(self.has(self.resource(name)))}"

    def looks(self, name: str, now: float) -> bool:
        return self.look(self.resource(name), now)

    def keep(self, *names: str) -> None:
        self.retain(map(self.resource, names))

    def resource(self, name: str) -> Resource:
        return self.EVENTS.get(name) or Resource("", "v1", name, namespaced=True)


def backoff_of(beginning: str) -> Step:
    """Return the calls of a backoff: `random 0.1,0.2`, and perhaps a base, a cap and a reset in seconds."""
    _, random, *limits = beginning.split()
    numbers = cycle(map(float, random.split(",")))
    return calls(Backoff(lambda: next(numbers), *map(float, limits)))


SUBJECTS: dict[str, Callable[[str], Step]] = {
    "backoff": backoff_of,
    "bursts": lambda how: calls(EventBurst(103.0, 103.0, 8, 29, 22) if how == "burst at 103" else BurstFinder()),
    "caches": lambda _: calls(Caches()),
    "closes": lambda _: calls(Apiserver(), lambda word: Reason(word) if word in REASONS else value(word)),
    "delivered": lambda how: calls(Delivered(replay=how == "replay")),
    "deliveries": lambda _: calls(Peers()),
    "down": lambda _: calls(DownTime(), value_or_failure),
    "health": lambda _: calls(AuditedHealth(), value_or_verdict),
    "inventory": lambda _: calls(Stock(), lambda word: int(word) if word.isdecimal() else word),
    "proven-idle": lambda _: calls(ProvenIdle(1000.0), value_or_read),
    "responsiveness": lambda _: calls(ObservedResponsiveness()),
    "searches": lambda newest: calls(RevisionSearch(int(newest))),
    "streamed-lists": lambda _: calls(StreamedLists()),
    "rights": lambda _: calls(MissingRight(), value_or_failure),
}


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_part_does_what_its_transcripts_say(path: Path, golden: Callable[[str, str], None]) -> None:
    golden(f"watch/{path.name}", replay(path.read_text(), SUBJECTS[path.stem]))


def test_inventory_that_merges_each_change_at_once_does_the_same(
    monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    monkeypatch.setattr(inventory_module, "FEWEST_CHANGES", 0)
    test_part_does_what_its_transcripts_say(GOLDEN / "inventory.txt", golden)
