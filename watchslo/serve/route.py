"""What a part of the server answers, as a value, so that all routes stand in one list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Route:
    """A path, what answers it, and what FastAPI is to document of it; an open one is answered whoever asks."""

    path: str
    endpoint: Callable[..., Any]
    open: bool = False
    documented: Mapping[str, Any] = field(default_factory=dict)
