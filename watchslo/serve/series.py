"""`/api/v1/series`: the last hour of the watches, for charts."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import HTTPException, Query, Request

from watchslo.api.feed import SeriesDocument
from watchslo.serve import update
from watchslo.serve.admission_control import client_of
from watchslo.serve.document import Document, DocumentResponse
from watchslo.serve.feed import Feed
from watchslo.serve.route import Kind, Route

STEP_SECONDS = 5.0  # between two evaluations
HOUR_SECONDS = 3600.0
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

Resource = Annotated[
    str | None,
    Query(
        max_length=253, description="The name of a watch, or a resource as kubectl takes it; all watches by default."
    ),
]
Window = Annotated[
    str, Query(pattern=r"^[1-9][0-9]{0,3}[smh]$", description="How far back, up to an hour: `90s`, `15m`, `1h`.")
]


def routes(feed: Feed) -> Iterator[Route]:
    """Return the routes of past figures."""

    async def series(request: Request, resource: Resource = None, window: Window = "1h") -> DocumentResponse:
        """P50 and the judged quantile of each watch, with bounds and events, at every evaluation of the last hour."""
        seconds = min(HOUR_SECONDS, float(window[:-1]) * UNITS[window[-1]])
        client = client_of(request)
        found = await feed.ask(client, lambda timeline: update.past_watches(timeline, resource, seconds))
        if resource is not None and not found:
            raise HTTPException(404, "There is no such watch; /api/v1/status lists the watches.")
        pieces = await feed.queries.collect(client, update.series(found, seconds, STEP_SECONDS))
        return DocumentResponse(Document(tuple(pieces), "application/json"))

    unknown = {404: {"description": "There is no such watch."}}
    yield Route("/api/v1/series", series, kind=Kind.QUERY, answers=SeriesDocument, documented={"responses": unknown})
