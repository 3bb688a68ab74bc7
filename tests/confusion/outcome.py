"""Injects a fault, reads the diagnosis, and returns the outcome."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.confusion.answers import Answer, Truth
from tests.confusion.faults import Fault
from tests.confusion.stage import Stage
from watchslo.snapshot import Cause, Confidence

NAMED_SECONDS = 30.0  # within which a cause has to be named
HELD_SECONDS = 10.0  # for which the fault continues after that: the answer must not change
CLEARED_SECONDS = 60.0  # within which all causes have to be cleared
REST_SECONDS = 6.0  # without any cause, before the next fault
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.5
NONE = "none"

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one fault.

    `answer` is the most certain answer when the fault ended, `wrong` holds the answers of high confidence that match
    no truth. `named_after` is in seconds from the beginning of the fault, `cleared_after` from its end; None if that
    did not happen in time. `overloaded` is whether this machine delayed the daemon, which lowers the confidence of all
    causes.
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
    def named_cause(self) -> str:
        """The column of the matrix that counts this outcome."""
        if self.answer is None:
            return NONE
        return self.answer.cause.value + ("" if self.right or not self._same_cause() else " of another")

    def _same_cause(self) -> bool:
        return any(self.answer is not None and truth.cause is self.answer.cause for truth in self.truths)

    def _true(self, answer: Answer | None) -> bool:
        return answer is not None and any(truth.fits(answer) for truth in self.truths)


class _Witness:
    """Reads the diagnosis repeatedly."""

    def __init__(self, stage: Stage, truths: tuple[Truth, ...]) -> None:
        self._stage = stage
        self._truths = truths
        self.wrong: dict[Answer, None] = {}
        self.overloaded = False
        self.answers: list[Answer] = []

    def look(self) -> None:
        time.sleep(LOOK_SECONDS)
        self.answers = self._stage.diagnosis()
        for answer in self.answers:
            if any(truth.fits(answer) for truth in self._truths):
                continue
            if answer.confidence is Confidence.HIGH:
                self.wrong[answer] = None
            self.overloaded |= answer.cause is Cause.MONITOR_OVERLOADED

    @property
    def most_certain(self) -> Answer | None:
        return self.answers[0] if self.answers else None

    @property
    def right(self) -> bool:
        return self.most_certain is not None and any(truth.fits(self.most_certain) for truth in self._truths)


def play(stage: Stage, fault: Fault, seed: int, report: Report = lambda _: None, held: float | None = None) -> Outcome:
    """Inject the fault with the strength that the seed gives, and return the outcome.

    It continues for `held` seconds after it was named, by default `HELD_SECONDS`.
    """
    until_quiet(stage)
    random = Random(f"{fault.name} {seed}")
    with fault.inject(stage, random) as injected:
        witness, began = _Witness(stage, injected.truths), time.monotonic()
        named_after = _until_named(witness, began, HELD_SECONDS if held is None else held)
        answer = witness.most_certain
        for sentence in stage.evidence():
            report(f"    {sentence}")
    ended = time.monotonic()
    cleared_after = _until_cleared(witness, ended)
    return Outcome(
        fault,
        seed,
        injected.strength,
        injected.truths,
        answer,
        named_after,
        cleared_after,
        tuple(witness.wrong),
        witness.overloaded,
    )


def until_quiet(stage: Stage) -> None:
    """Wait until no cause has been named for some seconds."""
    deadline, quiet = time.monotonic() + PATIENCE_SECONDS, time.monotonic()
    while time.monotonic() < quiet + REST_SECONDS:
        time.sleep(LOOK_SECONDS)
        if stage.diagnosis():
            quiet = time.monotonic()
        if time.monotonic() > deadline:
            raise AssertionError(f"a cause is named without a fault: {stage.evidence()}")


def _until_named(witness: _Witness, began: float, held: float) -> float | None:
    """Read until the most certain answer stays right; return the seconds until it became right, or None."""
    named: float | None = None
    while time.monotonic() < (began + NAMED_SECONDS if named is None else named + held):
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
