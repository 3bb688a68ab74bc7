"""A route as a value, so that all routes of the server are in one list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Route:
    """A path, its endpoint, and the arguments for FastAPI's documentation; an `open` route needs no token."""

    path: str
    endpoint: Callable[..., Any]
    open: bool = False
    documented: Mapping[str, Any] = field(default_factory=dict)
