"""Formats values as Grafana does."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit: the largest of `sizes` up to the value gives the prefix; `tail` follows it."""

    sizes: tuple[tuple[float, str], ...]
    tail: str = ""


PLAIN = ((1.0, ""),)
TIMES = ((86_400, " d"), (3_600, " h"), (60, " min"), (1, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns"))
THOUSANDS = ((1e9, "G"), (1e6, "M"), (1e3, "K"), (1, ""))
POWERS = ((2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"), (1, " B"))
SCALES = {
    "s": Scale(TIMES),
    "percentunit": Scale(((0.01, ""),), "%"),
    "short": Scale(THOUSANDS),
    "eps": Scale(THOUSANDS, " evt/s"),
    "reqps": Scale(THOUSANDS, " req/s"),
    "bytes": Scale(POWERS),
    "Bps": Scale(POWERS, "/s"),
    "suffix:x": Scale(PLAIN, "x"),
}


def write(value: float, unit: str) -> str:
    """Format a value with its unit, in three digits."""
    if not math.isfinite(value):
        return str(value)
    scale = SCALES[unit]
    size, name = next((part for part in scale.sizes if abs(value) >= part[0]), scale.sizes[-1])
    return f"{_digits(value / size)}{name if value else ''}{scale.tail}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"  # noqa: PLR2004 - digits
