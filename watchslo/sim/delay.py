"""How late things are: laws of delay, written as people say them, and a line in which nobody overtakes."""

import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from watchslo.errors import ConfigError

T = TypeVar("T")

Draw = Callable[[float, Random], float]
"""Maps the time now (monotonic seconds) to a delay in seconds; randomness comes from outside."""


@dataclass(frozen=True, slots=True)
class Law:
    """A law of delay; `text` is how it was written, e.g. `lognormal 20ms 0.5`."""

    text: str
    draw: Draw


def _none() -> Draw:
    return lambda _now, _random: 0.0


def _constant(delay: float) -> Draw:
    return lambda _now, _random: delay


def _lognormal(median: float, sigma: float) -> Draw:
    mu = math.log(median)
    return lambda _now, random: random.lognormvariate(mu, sigma)


def _normal(mean: float, deviation: float) -> Draw:
    return lambda _now, random: max(0.0, random.gauss(mean, deviation))


def _exponential(mean: float) -> Draw:
    return lambda _now, random: random.expovariate(1 / mean)


def _bimodal(fast: float, slow: float, share: float) -> Draw:
    """A `share` of the draws takes `slow`, the rest `fast`."""
    return lambda _now, random: slow if random.random() < share else fast


def _hold(length: float, period: float) -> Draw:
    """Once in a `period` everything is held for `length`, then let go at once: what a stuttering server does."""
    return lambda now, _random: max(0.0, length - now % period)


LAWS: dict[str, tuple[Callable[..., Draw], str]] = {
    "none": (_none, ""),
    "constant": (_constant, "DELAY"),
    "lognormal": (_lognormal, "MEDIAN SIGMA"),
    "normal": (_normal, "MEAN DEVIATION"),
    "exponential": (_exponential, "MEAN"),
    "bimodal": (_bimodal, "FAST SLOW SHARE"),
    "hold": (_hold, "LENGTH PERIOD"),
}
"""Every law by its name, and what stands behind the name."""

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(ms|s)?")
_UNITS = {None: 1.0, "s": 1.0, "ms": 1e-3}


def parse_law(text: str) -> Law:
    """The law behind e.g. `normal 500ms 100ms`; numbers are seconds unless they end in `ms`.

    Raises:
        ConfigError: for a text that is no law.
    """
    name, *words = text.split() or [""]
    make, wanted = LAWS.get(name, (_none, ""))
    numbers = [_number(word) for word in words]
    if name not in LAWS or len(numbers) != len(wanted.split()):
        known = ", ".join(f"{law} {arguments}".strip() for law, (_, arguments) in LAWS.items())
        raise ConfigError(f"{text!r} is not a law of delay. Write one of: {known}; e.g. `normal 500ms 100ms`.")
    try:
        law = Law(text, make(*numbers))
        law.draw(0.0, Random(0))  # noqa: S311 - a trial: some numbers make no law, such as a median of 0
    except (ValueError, ArithmeticError):
        raise ConfigError(f"{text!r} cannot be a law of delay. Write numbers above 0.") from None
    return law


def _number(word: str) -> float:
    match = _NUMBER.fullmatch(word)
    if not match:
        raise ConfigError(f"{word!r} is neither a number nor a duration. Write `0.5`, `0.5s` or `500ms`.")
    return float(match[1]) * _UNITS[match[2]]


AT_ONCE = parse_law("none")


class Line(Generic[T]):
    """Items that wait for their time in the order they came: a late one delays those behind it, as in a TCP stream."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, T]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def due(self) -> float:
        """When the first item may leave; infinite while none waits."""
        return self._waiting[0][0] if self._waiting else math.inf

    def push(self, due: float, item: T) -> None:
        last = self._waiting[-1][0] if self._waiting else due
        self._waiting.append((max(due, last), item))

    def pop(self, now: float) -> list[T]:
        """What may leave by now, in order."""
        items = []
        while self._waiting and self._waiting[0][0] <= now:
            items.append(self._waiting.popleft()[1])
        return items

    def clear(self) -> None:
        self._waiting.clear()
