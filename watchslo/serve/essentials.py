"""What every instance serves: metrics and probes. Alone they are an application that needs no FastAPI, only Starlette.

An instance without the page takes 10 MiB less memory: it has no schema of the API and renders no HTML.
"""

from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from watchslo.errors import UnavailableError
from watchslo.serve.admission_control import AdmissionControl, client_of
from watchslo.serve.auth import AccessControl, Authorize, unavailable
from watchslo.serve.document import DocumentResponse
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.history import History
from watchslo.serve.lane import Lane
from watchslo.serve.rendering import Renderer
from watchslo.serve.route import Kind, Route
from watchslo.snapshot import Snapshot

Latest = Callable[[], Awaitable[Snapshot]]

Unhealthy = Callable[[], str | None]
"""Returns why the daemon does not measure any more, or None; it is called in the thread of the server."""


def create_app(
    latest: Latest,
    unhealthy: Unhealthy,
    metrics: MetricsEncoder,
    history: History,
    authorize: Authorize | None = None,
) -> Starlette:
    """Return the application without the page and the API.

    `latest` returns the newest snapshot; `history` has the verdict. Without `authorize`, every client may read
    everything.
    """
    app = Starlette()
    app.router.redirect_slashes = False
    found = [*probes(latest, unhealthy), scrapes(latest, metrics, history)]
    for route in found:
        app.add_route(route.path, route.endpoint, methods=["GET", "HEAD"])
    protect(app, found, authorize)
    return app


def protect(app: Starlette, routes: Iterable[Route], authorize: Authorize | None) -> None:
    """Check the access of requests except those to `open` routes, admit those of a `kind`; 503 without a snapshot."""
    routes = [*routes]
    open_paths = frozenset(route.path for route in routes if route.open)
    app.add_exception_handler(UnavailableError, _unavailable)
    app.add_middleware(AdmissionControl, routes=routes, authorized=authorize is not None)  # runs second
    app.add_middleware(AccessControl, open_paths=open_paths, authorize=authorize)


def probes(latest: Latest, unhealthy: Unhealthy) -> list[Route]:
    """Return the routes that a kubelet asks."""

    async def healthz(_: Request) -> PlainTextResponse:
        """200 while the measuring event loop and all its tasks run."""
        reason = unhealthy()
        return PlainTextResponse(f"{reason}\n", 503) if reason else PlainTextResponse("ok\n")

    async def readyz(_: Request) -> PlainTextResponse:
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


def scrapes(latest: Latest, metrics: MetricsEncoder, history: History) -> Route:
    """Return the route of the metrics."""
    renderer = Renderer[Snapshot](Lane(history.thread))  # one of its own: scrapes do not wait for queries

    async def scrape(request: Request) -> Response:
        form = negotiate(_header(request, "accept"), _header(request, "accept-encoding"))
        document = await renderer.render(
            client_of(request), await latest(), form, lambda snapshot: metrics.encode(history.judged(snapshot), form)
        )
        return DocumentResponse(document)

    return Route("/metrics", scrape, kind=Kind.SCRAPE, documented={"include_in_schema": False})


async def _unavailable(_: Request, error: Exception) -> JSONResponse:
    return unavailable(error)


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))
