"""The answers of the diagnosis, and the right ones."""

from dataclasses import dataclass

from watchslo.snapshot import Cause, Confidence


@dataclass(frozen=True, slots=True)
class Answer:
    """A named cause; apiserver and watch are None if it names none."""

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class Truth:
    """A right answer; None for the apiserver or the watch accepts any."""

    cause: Cause
    apiserver: str | None = None
    watch: str | None = None

    def fits(self, answer: Answer) -> bool:
        return (
            answer.cause is self.cause
            and self.apiserver in (None, answer.apiserver)
            and self.watch in (None, answer.watch)
        )
