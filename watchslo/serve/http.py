"""The whole application: metrics, probes, status, API and the page, all from the newest snapshot."""

from collections.abc import Sequence
from inspect import cleandoc
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response

from watchslo import __version__
from watchslo.api.status import StatusDocument
from watchslo.serve import detail, page, series
from watchslo.serve import feed as feeding
from watchslo.serve.admission_control import client_of
from watchslo.serve.auth import Authorize
from watchslo.serve.document import DocumentResponse
from watchslo.serve.essentials import Latest, Unhealthy, probes, protect, scrapes
from watchslo.serve.exposition import MetricsEncoder
from watchslo.serve.feed import Feed
from watchslo.serve.rendering import Renderer
from watchslo.serve.route import Kind, Route
from watchslo.serve.status import StatusEncoder
from watchslo.snapshot import Snapshot

BUSY = {503: {"description": "The client has its share of the answers at once, or the measuring loop does not answer."}}
"""What every admitted route may answer, in OpenAPI's terms."""
SCHEMA_REFERENCE = "#/components/schemas/{name}"


def create_app(
    latest: Latest,
    unhealthy: Unhealthy,
    metrics: MetricsEncoder,
    feed: Feed,
    authorize: Authorize | None = None,
) -> FastAPI:
    """Return the application.

    `latest` returns the newest snapshot; `feed` has the changes and the past. Without `authorize`, every client may
    read everything.
    """
    routes = [
        *probes(latest, unhealthy),
        scrapes(latest, metrics, feed),
        _status(latest, feed),
        *page.routes(latest, feed),
        *series.routes(feed),
        *detail.routes(feed),
        *feeding.routes(feed, authorize),
    ]
    return application(routes, authorize)


def application(routes: Sequence[Route], authorize: Authorize | None) -> FastAPI:
    """Return an application with these routes and the access check in front of them."""
    app = FastAPI(title="watchslo", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    for route in routes:  # HEAD is not documented; the server leaves out the body
        documented = {**route.documented, "responses": _responses(route)}
        app.add_api_route(route.path, route.endpoint, methods=["GET"], **documented)
        app.add_api_route(route.path, route.endpoint, methods=["HEAD"], include_in_schema=False)
    protect(app, routes, authorize)
    document = app.openapi()  # made now, because it would block the loop later; the application keeps it
    document.setdefault("components", {}).setdefault("schemas", {}).update(_schemas(routes))
    return app


def _responses(route: Route) -> dict[int, Any]:
    """Return what a route may answer, in OpenAPI's terms."""
    responses = {**(BUSY if route.kind else {}), **route.documented.get("responses", {})}
    if route.answers and route.kind is not Kind.FEED:  # events are text
        schema = {"$ref": SCHEMA_REFERENCE.format(name=route.answers.__name__)}
        responses[200] = {"content": {"application/json": {"schema": schema}}}
    return responses


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the schemas of all parts of the answers; a daemon sends all fields, also those with a default."""
    forms = [route.answers for route in routes if route.answers]
    _, schemas = msgspec.json.schema_components(forms, ref_template=SCHEMA_REFERENCE)
    for schema in schemas.values():
        schema["description"] = cleandoc(schema["description"])
        schema["required"] = [*schema["properties"]]
    return schemas


def _status(latest: Latest, feed: Feed) -> Route:
    renderer, statuses = Renderer[Snapshot](feed.queries), StatusEncoder()

    async def read_status(request: Request) -> Response:
        """The complete status: configuration, apiservers, domains, watches, active causes."""
        document = await renderer.render(
            client_of(request), await latest(), None, lambda snapshot: statuses.encode(snapshot, feed.account)
        )
        return DocumentResponse(document)

    return Route("/api/v1/status", read_status, kind=Kind.QUERY, answers=StatusDocument)
