"""Delay laws: named random distributions of delays, written as text such as `lognormal 20ms 0.5`.

The module is pure: time and randomness are arguments.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from watchslo.errors import ConfigError

Draw = Callable[[float, Random], float]
"""Maps the current time (monotonic seconds) and a random generator to a delay in seconds."""


@dataclass(frozen=True, slots=True)
class DelayLaw:
    """A distribution of delays; `text` is its notation, e.g. `lognormal 20ms 0.5`."""

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


def _bimodal(fast: float, slow: float, share: float) -> Draw:
    """Return `slow` for a `share` of the draws and `fast` for the rest."""
    return lambda _now, random: slow if random.random() < share else fast


def _hold(length: float, period: float) -> Draw:
    """Hold all items for `length` once in a `period`, then release them together, as a stuttering server does."""
    return lambda now, _random: max(0.0, length - now % period)


LAWS: dict[str, tuple[Callable[..., Draw], str]] = {
    "none": (_none, ""),
    "constant": (_constant, "DELAY"),
    "lognormal": (_lognormal, "MEDIAN SIGMA"),
    "normal": (_normal, "MEAN DEVIATION"),
    "bimodal": (_bimodal, "FAST SLOW SHARE"),
    "hold": (_hold, "LENGTH PERIOD"),
}
"""The constructor of each delay law and its parameters, by the law's name."""

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(ms|s)?")
_UNITS = {None: 1.0, "s": 1.0, "ms": 1e-3}


def parse_law(text: str) -> DelayLaw:
    """Parse a delay law such as `normal 500ms 100ms`; numbers are seconds unless they end in `ms`.

    Raises:
        ConfigError: if the text is not a valid delay law.
    """
    name, *words = text.split() or [""]
    make, parameters = LAWS.get(name, (_none, ""))
    numbers = [_number(word) for word in words]
    if name not in LAWS or len(numbers) != len(parameters.split()):
        known = ", ".join(f"{law} {arguments}".strip() for law, (_, arguments) in LAWS.items())
        raise ConfigError(f"{text!r} is not a delay law. Write one of: {known}; e.g. `normal 500ms 100ms`.")
    try:
        law = DelayLaw(text, make(*numbers))
        law.draw(0.0, Random(0))  # noqa: S311 - a trial draw: some parameters are invalid, such as a median of 0
    except (ValueError, ArithmeticError):
        raise ConfigError(f"{text!r} is not a valid delay law. Write numbers above 0.") from None
    return law


def _number(word: str) -> float:
    match = _NUMBER.fullmatch(word)
    if not match:
        raise ConfigError(f"{word!r} is neither a number nor a duration. Write `0.5`, `0.5s` or `500ms`.")
    return float(match[1]) * _UNITS[match[2]]


NO_DELAY = parse_law("none")
