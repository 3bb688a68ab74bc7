"""Judges which cause the daemon names: the right one, at the right place, and how soon."""

import time
from dataclasses import dataclass
from datetime import datetime

from tests.lab.expected import Truth
from tests.lab.judges.judge import Judge
from tests.lab.scene import LOOK_SECONDS, Fault, Hit, Scene
from tests.support.process import PATIENCE_SECONDS, eventually
from watchslo.snapshot import Cause, Confidence

NAMED_SECONDS, CLEARED_SECONDS = 30.0, 60.0
"""The goals of `make confusion`: how soon a cause is named, and cleared after its end. Nothing is named for so long
without a fault."""
HELD_SECONDS = 10.0  # for which a fault continues after it was named: the answer must not change
REST_SECONDS = 6.0  # without any cause, before the next fault
NONE = "none"


@dataclass(frozen=True, slots=True)
class Answer:
    """A named cause; apiserver and watch are None if it names none."""

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class CauseOutcome:
    """The most certain answer when the fault ended, and all `wrong` ones of high confidence.

    `named_after` is in seconds from the beginning of the fault, `cleared_after` from its end; None if that did not
    happen. `column` is that of the confusion matrix.
    """

    fault: str
    strength: str
    answer: Answer | None
    right: bool
    column: str
    named_after: float | None
    cleared_after: float | None
    wrong: tuple[Answer, ...]

    def __str__(self) -> str:
        named = "-" if self.named_after is None else f"{self.named_after:.0f} s"
        cleared = "never" if self.cleared_after is None else f"{self.cleared_after:.0f} s"
        confidence = f" ({self.answer.confidence})" if self.answer else ""
        return (
            f"{'right' if self.right else 'WRONG'} {self.fault} ({self.strength}): {self.column}{confidence}, "
            f"named after {named}, cleared after {cleared}"
            + "".join(f", wrong at high confidence: {wrong}" for wrong in self.wrong)
        )


class CauseJudge(Judge):
    """Expects that the most certain cause becomes one of the truths, stays so, and is cleared.

    A fault that is not named ends after `patience` seconds. It continues for `held` seconds after it was named.
    """

    def __init__(self, scene: Scene, patience: float = PATIENCE_SECONDS, held: float = HELD_SECONDS) -> None:
        self._scene = scene
        self._patience = patience
        self._held = held
        self._truths: tuple[Truth, ...] = ()
        self._hit = Hit()
        self._named: float | None = None
        self._wrong: dict[Answer, None] = {}
        self._answers: list[Answer] = []
        self.outcome: CauseOutcome | None = None

    def concerns(self, fault: Fault) -> bool:
        return fault.causes is not None

    def prepare(self, fault: Fault) -> None:
        """Wait until no cause that this judge would count has been named for some seconds."""
        self._fault, self._truths = fault, fault.causes or ()
        self._scene.until_measured()
        quiet = time.monotonic()

        def rested() -> bool:
            nonlocal quiet
            if self._notable():
                quiet = time.monotonic()
            return time.monotonic() >= quiet + REST_SECONDS

        eventually(rested, "no cause is named without a fault", LOOK_SECONDS)

    def struck(self, hit: Hit) -> None:
        self._hit, self._named = hit, None
        self._wrong.clear()

    def seen(self) -> bool:
        now = time.monotonic()
        self._look()
        if not self._answers or not self._true(self._answers[0]):
            self._named = None
        elif self._named is None:
            self._named = now
        if self._named is not None:
            return now >= self._named + self._held
        return now >= self._scene.began + (self._patience if self._truths else NAMED_SECONDS)

    def finish(self) -> None:
        began, ended = self._scene.began, self._scene.ended or time.monotonic()
        answer = self._answers[0] if self._answers else None
        for sentence in self._evidence():
            print(f"    {sentence}", flush=True)
        while (left := self._notable()) and time.monotonic() < ended + PATIENCE_SECONDS:
            time.sleep(LOOK_SECONDS)
        cleared = None if left else time.monotonic() - ended
        named = None if self._named is None else self._named - began
        right = named is not None if self._truths else answer is None
        self.outcome = CauseOutcome(
            self._fault.name,
            self._hit.strength,
            answer,
            right,
            self._column(answer, right=right),
            named,
            cleared,
            tuple(self._wrong),
        )
        print(self.outcome, flush=True)

    def complaints(self) -> list[str]:
        assert self.outcome is not None
        wrong = [answer for answer in self.outcome.wrong if answer.cause is not Cause.MONITOR_OVERLOADED]
        good = self.outcome.right and not wrong and self.outcome.cleared_after is not None
        return [] if good else [str(self.outcome)]

    def _look(self) -> list[Answer]:
        """Read the causes that the daemon names now, the most certain first."""
        self._answers = [
            Answer(Cause(cause["cause"]), cause["apiserver"], cause["watch"], Confidence(cause["confidence"]))
            for cause in self._scene.daemon.status()["causes"]
        ]
        certain = [answer for answer in self._answers if answer.confidence is Confidence.HIGH]
        self._wrong.update(dict.fromkeys(answer for answer in certain if not self._true(answer)))
        return self._answers

    def _notable(self) -> list[Answer]:
        """Read the causes that are true, and those of some confidence, without `monitor_overloaded`.

        On a busy machine apiservers are late without a fault, and then a suspicion of low confidence is right.
        """
        return [
            one
            for one in self._look()
            if self._true(one) or (one.confidence is not Confidence.LOW and one.cause is not Cause.MONITOR_OVERLOADED)
        ]

    def _true(self, answer: Answer) -> bool:
        return any(
            truth.cause is answer.cause
            and (not truth.here or answer.apiserver == self._hit.apiserver)
            and truth.watch in (None, answer.watch)
            for truth in self._truths
        )

    def _column(self, answer: Answer | None, *, right: bool) -> str:
        if answer is None:
            return NONE
        elsewhere = not right and any(truth.cause is answer.cause for truth in self._truths)
        return answer.cause.value + (" of another" if elsewhere else "")

    def _evidence(self) -> list[str]:
        """Return the evidence of the causes that the daemon names now."""
        status = self._scene.daemon.status()
        now = datetime.fromisoformat(status["at"])
        return [
            f"{cause['cause']} {cause['apiserver'] or '-'} {cause['watch'] or '-'} {cause['confidence']} "
            f"({(now - datetime.fromisoformat(cause['since'])).total_seconds():.0f} s): {cause['evidence']}"
            for cause in status["causes"]
        ]
