"""What is answered: metrics, health, status and a page, all from the newest snapshot."""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from watchslo import __version__
from watchslo.errors import UnavailableError
from watchslo.serve import api, page, status
from watchslo.serve import feed as feeding
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.feed import Feed
from watchslo.serve.gate import Authorize, Gate, unavailable
from watchslo.serve.rendering import Document, Renderer
from watchslo.serve.route import Route
from watchslo.snapshot import Snapshot

STALE_HEARTBEAT_SECONDS = 5.0  # a hundred beats missed: what still answers here measures nothing any more

Latest = Callable[[], Awaitable[Snapshot]]


def create_app(
    latest: Latest,
    heartbeat: Callable[[], float],
    metrics: MetricsEncoder,
    feed: Feed,
    authorize: Authorize | None = None,
) -> FastAPI:
    """The application: `latest` gives the newest snapshot, `heartbeat` the seconds since the measuring loop last beat.

    `feed` tells what was, and what changes. Without `authorize` everybody may read everything.
    """
    app = FastAPI(title="watchslo", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    routes = [
        *_probes(latest, heartbeat),
        *_readings(latest, metrics, feed),
        *page.routes(latest, feed),
        *api.routes(feed),
        *feeding.routes(feed, authorize),
    ]
    for route in routes:  # HEAD is not documented: the server leaves out the body
        app.add_api_route(route.path, route.endpoint, methods=["GET"], **route.documented)
        app.add_api_route(route.path, route.endpoint, methods=["HEAD"], include_in_schema=False)
    app.add_exception_handler(UnavailableError, _unavailable)
    app.add_middleware(Gate, open_paths=frozenset(route.path for route in routes if route.open), authorize=authorize)
    app.openapi()  # made now, because later it would hold up the loop
    return app


def _probes(latest: Latest, heartbeat: Callable[[], float]) -> list[Route]:
    async def healthz() -> PlainTextResponse:
        """Whether the event loop that measures turns."""
        age = heartbeat()
        if age > STALE_HEARTBEAT_SECONDS:
            return PlainTextResponse(f"the last heartbeat was {age:.1f} s ago\n", 503)
        return PlainTextResponse("ok\n")

    async def readyz() -> PlainTextResponse:
        """Whether every stream that can run has started once and the clock ticks; if not, why, one reason a line."""
        reasons = (await latest()).monitor.not_ready
        if reasons:
            return PlainTextResponse("".join(f"{reason}\n" for reason in reasons), 503)
        return PlainTextResponse("ok\n")

    documented = {
        "responses": {503: {"description": "Not so; the text says why."}},
        "response_class": PlainTextResponse,
    }
    return [
        Route("/healthz", healthz, open=True, documented=documented),
        Route("/readyz", readyz, open=True, documented=documented),
    ]


def _readings(latest: Latest, metrics: MetricsEncoder, feed: Feed) -> list[Route]:
    renderer = Renderer()

    async def scrape(request: Request) -> Response:
        form = negotiate(_header(request, "accept"), _header(request, "accept-encoding"))
        document = await renderer.render(await latest(), form, lambda snapshot: metrics.encode(snapshot, form))
        return _response(document)

    async def read_status() -> Response:
        """Everything watchslo knows at this moment."""
        document = await renderer.render(await latest(), status, lambda snapshot: status.encode(snapshot, feed.account))
        return _response(document)

    hangs = {503: {"description": "The loop that measures does not answer."}}
    return [
        Route("/metrics", scrape, documented={"include_in_schema": False}),
        Route("/api/v1/status", read_status, documented={"response_model": status.Status, "responses": hangs}),
    ]


async def _unavailable(_: Request, error: Exception) -> JSONResponse:
    return unavailable(error)


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))


def _response(document: Document) -> Response:
    return Response(document.body, media_type=document.content_type, headers=dict(document.headers))
