"""The application: metrics, health, status and the page, all from the newest snapshot."""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from watchslo import __version__
from watchslo.errors import UnavailableError
from watchslo.serve import api, detail, page
from watchslo.serve import feed as feeding
from watchslo.serve.auth import AccessControl, Authorize, unavailable
from watchslo.serve.document import DocumentResponse
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.feed import Feed
from watchslo.serve.rendering import Renderer
from watchslo.serve.route import Route
from watchslo.serve.status import StatusDocument, StatusEncoder
from watchslo.snapshot import Snapshot

STALE_HEARTBEAT_SECONDS = 5.0  # a hundred missed beats: nothing is measured any more

Latest = Callable[[], Awaitable[Snapshot]]


def create_app(
    latest: Latest,
    heartbeat: Callable[[], float],
    metrics: MetricsEncoder,
    feed: Feed,
    authorize: Authorize | None = None,
) -> FastAPI:
    """Return the application.

    `latest` returns the newest snapshot, `heartbeat` the seconds since the measuring loop's last heartbeat; `feed` has
    the changes and the past. Without `authorize`, every client may read everything.
    """
    app = FastAPI(title="watchslo", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    routes = [
        *_probes(latest, heartbeat),
        *_readings(latest, metrics, feed),
        *page.routes(latest, feed),
        *api.routes(feed),
        *detail.routes(feed),
        *feeding.routes(feed, authorize),
    ]
    for route in routes:  # HEAD is not documented; the server leaves out the body
        app.add_api_route(route.path, route.endpoint, methods=["GET"], **route.documented)
        app.add_api_route(route.path, route.endpoint, methods=["HEAD"], include_in_schema=False)
    app.add_exception_handler(UnavailableError, _unavailable)
    open_paths = frozenset(route.path for route in routes if route.open)
    app.add_middleware(AccessControl, open_paths=open_paths, authorize=authorize)
    app.openapi()  # generated now, because it would block the loop later
    return app


def _probes(latest: Latest, heartbeat: Callable[[], float]) -> list[Route]:
    async def healthz() -> PlainTextResponse:
        """200 while the measuring event loop runs."""
        age = heartbeat()
        if age > STALE_HEARTBEAT_SECONDS:
            return PlainTextResponse(f"the last heartbeat was {age:.1f} s ago\n", 503)
        return PlainTextResponse("ok\n")

    async def readyz() -> PlainTextResponse:
        """200 once every watch that can run has been opened and the clock ticks; else 503 with one reason per line."""
        reasons = (await latest()).monitor.not_ready
        if reasons:
            return PlainTextResponse("".join(f"{reason}\n" for reason in reasons), 503)
        return PlainTextResponse("ok\n")

    documented = {
        "responses": {503: {"description": "Not healthy or not ready; the text says why."}},
        "response_class": PlainTextResponse,
    }
    return [
        Route("/healthz", healthz, open=True, documented=documented),
        Route("/readyz", readyz, open=True, documented=documented),
    ]


def _readings(latest: Latest, metrics: MetricsEncoder, feed: Feed) -> list[Route]:
    renderer, statuses = Renderer(feed.thread), StatusEncoder()

    async def scrape(request: Request) -> Response:
        form = negotiate(_header(request, "accept"), _header(request, "accept-encoding"))
        document = await renderer.render(await latest(), form, lambda snapshot: metrics.encode(snapshot, form))
        return DocumentResponse(document)

    async def read_status() -> Response:
        """The complete status: configuration, apiservers, domains, watches, active causes."""
        document = await renderer.render(
            await latest(), statuses, lambda snapshot: statuses.encode(snapshot, feed.account)
        )
        return DocumentResponse(document)

    unavailable_ = {503: {"description": "The measuring loop does not answer."}}
    return [
        Route("/metrics", scrape, documented={"include_in_schema": False}),
        Route(
            "/api/v1/status",
            read_status,
            documented={"response_model": StatusDocument, "responses": unavailable_},
        ),
    ]


async def _unavailable(_: Request, error: Exception) -> JSONResponse:
    return unavailable(error)


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))
