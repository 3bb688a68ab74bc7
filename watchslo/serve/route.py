"""A route as a value, so that all routes of the server are in one list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from watchslo.api.part import ApiPart


class Kind(Enum):
    """The kinds of requests that are admitted: the number of answers at once is limited for each kind apart."""

    SCRAPE = "scrape"
    QUERY = "query"
    FEED = "feed"


@dataclass(frozen=True, slots=True)
class Route:
    """A path, its endpoint, and the arguments for FastAPI's documentation; an `open` route needs no token.

    Answers without a `kind` cost too little to be limited. `answers` is the form of the document or of the events.
    """

    path: str
    endpoint: Callable[..., Any]
    open: bool = False
    kind: Kind | None = None
    answers: type[ApiPart] | None = None
    documented: Mapping[str, Any] = field(default_factory=dict)
