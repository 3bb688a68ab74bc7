"""What a measurement found of the guarantees of watches, for commands: totals, sentences and JSON."""

from collections import Counter
from dataclasses import dataclass

from watchslo.snapshot import Guarantee, Snapshot
from watchslo.timeline.condition import name_of
from watchslo.timeline.format import counted, some_of


@dataclass(frozen=True, slots=True)
class GuaranteeTotal:
    """How often one guarantee was checked and violated, on all watches, and the names of those that violated it."""

    guarantee: Guarantee
    checked: int
    violations: int
    watches: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Say what was found; for a guarantee that was violated."""
        found, checks = counted(self.violations, "event"), counted(self.checked, "check")
        return f"Guarantee {self.guarantee} violated by {found} of {some_of([*self.watches])}, in {checks}."


def totals(snapshot: Snapshot) -> list[GuaranteeTotal]:
    """Return the total of each guarantee that a watch can be checked for, since the start of the measurement."""
    checked, violations = Counter[str](), Counter[str]()
    for watch in snapshot.watches:
        checked.update(watch.guarantees.checked)
        violations.update(watch.guarantees.violations)
    return [
        GuaranteeTotal(
            guarantee,
            checked[guarantee],
            violations[guarantee],
            tuple(name_of(watch) for watch in snapshot.watches if watch.guarantees.violations.get(guarantee)),
        )
        for guarantee in Guarantee
        if guarantee in checked
    ]


def sentences(found: list[GuaranteeTotal]) -> list[str]:
    """Return a sentence for each violated guarantee, or one that says that there is none."""
    said = [total.sentence for total in found if total.violations]
    checks = sum(total.checked for total in found)
    return said or [f"No guarantee of a watch was violated in {counted(checks, 'check')}."]


def document(found: list[GuaranteeTotal]) -> list[dict[str, object]]:
    """Return the totals for JSON."""
    return [
        {
            "guarantee": total.guarantee.value,
            "checked": total.checked,
            "violations": total.violations,
            "watches": [*total.watches],
        }
        for total in found
    ]
