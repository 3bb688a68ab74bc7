"""What the diagnosis answers, and what it should have."""

from dataclasses import dataclass

from watchslo.snapshot import Cause, Confidence


@dataclass(frozen=True, slots=True)
class Answer:
    """A cause, of an apiserver and a watch where these are named."""

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Truth:
    """A right answer; an apiserver or a watch that is None here is not asked for."""

    cause: Cause
    apiserver: str | None = None
    watch: str | None = None

    def fits(self, answer: Answer) -> bool:
        return (
            answer.cause is self.cause
            and self.apiserver in (None, answer.apiserver)
            and self.watch in (None, answer.watch)
        )
