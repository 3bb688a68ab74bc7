"""What is known of the guarantees of one watch: how often each was checked and violated, and the log of that."""

import math
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from watchslo.snapshot import Guarantee, GuaranteeReading
from watchslo.watch.messages import Violated

OF_EVENTS = (Guarantee.ORDERED, Guarantee.UNIQUE, Guarantee.BOOKMARKABLE)  # each event is checked for these
LOG_SECONDS = 60.0  # between two lines about one guarantee of one watch; violations until then are added up


class GuaranteeRecord:
    """The guarantees of one watch since it was configured.

    Violations count events and bookmarks. The session counts all events, and passes their number to `reading`, which
    shows the `checkable` guarantees. The log has the revisions, and no name of an object.
    """

    def __init__(self, log: Any, checkable: Iterable[Guarantee]) -> None:
        self._log = log
        self._checkable = tuple(checkable)
        self._checked = Counter[Guarantee]()
        self._violations = Counter[Guarantee]()
        self._held: dict[Guarantee, Violated] = {}
        self._logged: dict[Guarantee, tuple[float, int]] = {}  # when, and how many violations there were by then

    def check(self, guarantee: Guarantee, count: int = 1) -> None:
        """Count how often a guarantee was checked, violations included."""
        self._checked[guarantee] += count

    def violate(self, violated: Violated) -> None:
        """Count and log violations."""
        guarantee, now = violated.guarantee, time.monotonic()
        self._violations[guarantee] += violated.count
        logged, before = self._logged.get(guarantee, (-math.inf, 0))
        if now - logged >= LOG_SECONDS:
            total = self._violations[guarantee]
            self._logged[guarantee] = now, total
            self._log.warning(
                "guarantee_violated",
                guarantee=guarantee.value,
                count=total - before,
                oldest=violated.oldest,
                newest=violated.newest,
            )

    def hold(self, violated: Violated) -> None:
        """Keep violations until it is known whether the revisions are of one sequence; `release` counts them."""
        guarantee, held = violated.guarantee, self._held.get(violated.guarantee, violated)
        count = violated.count + (held.count if held is not violated else 0)
        oldest, newest = min(held.oldest, violated.oldest), max(held.newest, violated.newest)
        self._held[guarantee] = Violated(guarantee, count, oldest, newest)

    def release(self) -> None:
        """Count the violations that were held."""
        held, self._held = self._held, {}
        for violated in held.values():
            self.violate(violated)

    def reading(self, changes: int) -> GuaranteeReading:
        """Return the totals of the guarantees; every one of so many `changes` was checked against those before it."""
        violations = {guarantee.value: self._violations[guarantee] for guarantee in self._checkable}
        checked = {guarantee.value: self._checked[guarantee] for guarantee in self._checkable}
        seen = changes + sum(violations[guarantee] for guarantee in OF_EVENTS)
        for guarantee in OF_EVENTS:
            checked[guarantee] += seen
        return GuaranteeReading(checked, violations)
