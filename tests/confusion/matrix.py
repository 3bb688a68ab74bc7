"""The confusion matrix: the cause that was named for each fault, how soon, and how soon it was cleared."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from tests.confusion.outcome import NONE, Outcome

RIGHT_SHARE = 0.9


def line(outcome: Outcome) -> str:
    """Return one outcome as a line of text."""
    named = "-" if outcome.named_after is None else f"{outcome.named_after:.0f} s"
    cleared = "never" if outcome.cleared_after is None else f"{outcome.cleared_after:.0f} s"
    verdict = "right" if outcome.right else "WRONG"
    confidence = f" ({outcome.answer.confidence})" if outcome.answer else ""
    return (
        f"{verdict} {outcome.fault.name} (seed {outcome.seed}, {outcome.strength}): {outcome.named_cause}{confidence}, "
        f"named after {named}, cleared after {cleared}"
        + "".join(f", wrong at high confidence: {wrong}" for wrong in outcome.wrong)
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table: a row for each fault, a column for each named cause, and how long it took."""
    faults = dict.fromkeys(outcome.fault.name for outcome in outcomes)
    answers = [*sorted({outcome.named_cause for outcome in outcomes} - {NONE}), NONE]
    head = ("fault", *answers, "right", "named after (median, worst)", "cleared after (median, worst)")
    rows = [head, tuple("---" for _ in head)]
    for fault in faults:
        those = [outcome for outcome in outcomes if outcome.fault.name == fault]
        named = Counter(outcome.named_cause for outcome in those)
        right = sum(outcome.right for outcome in those)
        rows.append(
            (
                fault,
                *(str(named[answer] or "") for answer in answers),
                f"{right} of {len(those)}",
                _times(outcome.named_after for outcome in those),
                _times(outcome.cleared_after for outcome in those),
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def missed(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a sentence for each missed goal."""
    right = sum(outcome.right for outcome in outcomes)
    if right < RIGHT_SHARE * len(outcomes):
        yield f"only {right} of {len(outcomes)} answers are right"
    for outcome in outcomes:
        if outcome.wrong:
            yield f"wrong at high confidence: {line(outcome)}"
        if outcome.cleared_after is None:
            yield f"still named a minute after its end: {line(outcome)}"


def _times(seconds: Iterable[float | None]) -> str:
    known = [value for value in seconds if value is not None]
    return f"{median(known):.0f} s, {max(known):.0f} s" if known else ""
