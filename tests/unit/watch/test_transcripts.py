"""Small parts of watches and of audits, call by call: transcripts in `tests/golden/watch`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.transcripts import Step, calls, replay, shown, value
from watchslo.model import Reading
from watchslo.watch.audit import AuditResult, Delivered, Health
from watchslo.watch.catch_up import BurstFinder
from watchslo.watch.closes import Close, Closes
from watchslo.watch.delivery_comparison import DeliveryComparison, PeerDeliveries
from watchslo.watch.down_time import DownTime
from watchslo.watch.failure import Reason, because
from watchslo.watch.headroom import Accepted, Search, TooOld
from watchslo.watch.inventory import Inventory
from watchslo.watch.messages import Unseen
from watchslo.watch.missing_right import MissingRight
from watchslo.watch.proven_idle import ProvenIdle
from watchslo.watch.responsiveness import Responsiveness
from watchslo.watch.strategy import StreamedLists

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "golden" / "watch").glob("*.txt"))
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


SUBJECTS: dict[str, Callable[[str], Step]] = {
    "bursts": lambda _: calls(BurstFinder()),
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
