"""The texts of a quantile, in every medium: its estimate and its bounds. Pure."""

from typing import Protocol

from watchslo.timeline.format import ABSENT, duration, estimated


class ShownBounds(Protocol):
    """An interval in seconds; an upper end of None is infinite."""

    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float | None: ...


class ShownFigure(ShownBounds, Protocol):
    """A quantile in seconds, as a reading or as a part of the API; an estimate of None is infinite."""

    @property
    def estimate(self) -> float | None: ...
    @property
    def resolved(self) -> bool: ...
    @property
    def resolution(self) -> float: ...
    @property
    def rough(self) -> bool: ...
    @property
    def probable(self) -> ShownBounds | None: ...


def estimate_text(figure: ShownFigure | None) -> str:
    """Return the estimate, or what it is below if it is not a measurement; a dash without a figure."""
    if figure is None:
        return ABSENT
    if not figure.resolved:
        return f"< {duration(figure.resolution)}"
    return limit(figure.estimate, rough=figure.rough)


def bounds_text(figure: ShownFigure | None) -> str:
    """Return the probable interval of a figure, if it has one, and its proven bounds."""
    if figure is None:
        return ABSENT
    proven = proven_text(figure)
    return proven if figure.probable is None else f"{between(figure.probable)}, {proven}"


def proven_text(bounds: ShownBounds) -> str:
    """Return proven bounds, marked as such."""
    return f"proven {between(bounds)}"


def between(bounds: ShownBounds) -> str:
    """Return `0.9 to 1.25 s`, `12.3 ms to 1.25 s` or `12.3 ms to ∞`: a unit that both have stands once."""
    (lower, unit), upper = duration(bounds.lower).split(), limit(bounds.upper)
    return f"{lower} to {upper}" if upper.endswith(f" {unit}") else f"{lower} {unit} to {upper}"


def limit(seconds: float | None, *, rough: bool = False) -> str:
    """Return a duration of which None is infinite."""
    return "∞" if seconds is None else estimated(seconds, rough=rough)
