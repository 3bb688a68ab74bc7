"""Makes a fault, asks for its cause, and says how that went."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.confusion.answers import Answer, Truth
from tests.confusion.faults import Fault
from tests.confusion.stage import Stage
from watchslo.snapshot import Cause, Confidence

NAMED_SECONDS = 30.0  # within which a cause has to be named
HELD_SECONDS = 10.0  # for which a fault goes on after that: the answer has to last
CLEARED_SECONDS = 60.0  # within which nothing is blamed any more
REST_SECONDS = 6.0  # without any cause, before the next fault
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.5
NONE = "none"

Said = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one fault; times are seconds from its beginning, and from its end.

    `answer` is the surest when the fault ended, `wrong` the answers at high confidence that were none of the truths.
    `overloaded` is whether this machine held up the daemon, which makes it doubt all else.
    """

    fault: Fault
    seed: int
    strength: str
    truths: tuple[Truth, ...]
    answer: Answer | None
    named_after: float | None
    cleared_after: float | None
    wrong: tuple[Answer, ...]
    overloaded: bool

    @property
    def right(self) -> bool:
        if not self.truths:
            return self.answer is None
        return self.named_after is not None and self._true(self.answer)

    @property
    def told(self) -> str:
        """What the matrix counts it as."""
        if self.answer is None:
            return NONE
        return self.answer.cause.value + ("" if self.right or not self._same_cause() else " of another")

    def _same_cause(self) -> bool:
        return any(self.answer is not None and truth.cause is self.answer.cause for truth in self.truths)

    def _true(self, answer: Answer | None) -> bool:
        return answer is not None and any(truth.fits(answer) for truth in self.truths)


class _Witness:
    """Looks at the diagnosis again and again."""

    def __init__(self, stage: Stage, truths: tuple[Truth, ...]) -> None:
        self._stage = stage
        self._truths = truths
        self.wrong: dict[Answer, None] = {}
        self.overloaded = False
        self.answers: list[Answer] = []

    def look(self) -> None:
        time.sleep(LOOK_SECONDS)
        self.answers = self._stage.said()
        for answer in self.answers:
            if any(truth.fits(answer) for truth in self._truths):
                continue
            if answer.confidence is Confidence.HIGH:
                self.wrong[answer] = None
            self.overloaded |= answer.cause is Cause.MONITOR_OVERLOADED

    @property
    def surest(self) -> Answer | None:
        return self.answers[0] if self.answers else None

    @property
    def right(self) -> bool:
        return self.surest is not None and any(truth.fits(self.surest) for truth in self._truths)


def play(stage: Stage, fault: Fault, seed: int, say: Said = lambda _: None) -> Outcome:
    """Makes the fault with the strength that comes of the seed."""
    until_quiet(stage)
    random = Random(f"{fault.name} {seed}")
    with fault.strike(stage, random) as struck:
        witness, began = _Witness(stage, struck.truths), time.monotonic()
        named_after = _until_named(witness, began)
        answer = witness.surest
        for sentence in stage.evidence():
            say(f"    {sentence}")
    ended = time.monotonic()
    cleared_after = _until_cleared(witness, ended)
    return Outcome(
        fault,
        seed,
        struck.strength,
        struck.truths,
        answer,
        named_after,
        cleared_after,
        tuple(witness.wrong),
        witness.overloaded,
    )


def until_quiet(stage: Stage) -> None:
    """Waits until nothing has been blamed for a while."""
    deadline, quiet = time.monotonic() + PATIENCE_SECONDS, time.monotonic()
    while time.monotonic() < quiet + REST_SECONDS:
        time.sleep(LOOK_SECONDS)
        if stage.said():
            quiet = time.monotonic()
        if time.monotonic() > deadline:
            raise AssertionError(f"without a fault something is blamed: {stage.evidence()}")


def _until_named(witness: _Witness, began: float) -> float | None:
    """Looks until the surest answer has been right for a while; returns when it first was and stayed so."""
    named: float | None = None
    while time.monotonic() < (began + NAMED_SECONDS if named is None else named + HELD_SECONDS):
        witness.look()
        if not witness.right:
            named = None
        elif named is None and time.monotonic() < began + NAMED_SECONDS:
            named = time.monotonic()
    return None if named is None else named - began


def _until_cleared(witness: _Witness, ended: float) -> float | None:
    while True:
        witness.look()
        after = time.monotonic() - ended
        if after > CLEARED_SECONDS:
            return None
        if not witness.answers:
            return after
