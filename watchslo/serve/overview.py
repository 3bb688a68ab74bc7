"""The page and the API of all instances, `/` and `/api/v1/overview`, from the newest overview; without scripts."""

from collections.abc import Callable

import msgspec
from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse

from watchslo.api.overview import OverviewDocument, OverviewVerdict
from watchslo.api.part import part_of
from watchslo.overview.merge import InstanceRow, Overview
from watchslo.serve import page
from watchslo.serve.auth import Authorize
from watchslo.serve.document import Document, DocumentResponse
from watchslo.serve.http import application
from watchslo.serve.page import HEADERS
from watchslo.serve.route import Route
from watchslo.templates import template
from watchslo.timeline.format import ABSENT, counted, lasting, moment
from watchslo.timeline.verdict import SIGNS

_PAGE = template("overview.html")
STYLE = "style.css"


def document_of(overview: Overview) -> OverviewDocument:
    """Return the overview in the form of the API."""
    verdict = OverviewVerdict(level=overview.level, text=overview.text)
    return part_of(OverviewDocument, overview, verdict=verdict)


def create_overview_app(latest: Callable[[], Overview], authorize: Authorize | None = None) -> FastAPI:
    """Return the application that shows the overview that `latest` returns."""
    stylesheet = page.static()[STYLE]

    async def index() -> Response:
        return DocumentResponse(encode(latest()))

    async def read_overview() -> Response:
        """The verdict on the cluster, what each instance says, and what does not fit together."""
        return Response(msgspec.json.encode(document_of(latest())), media_type="application/json")

    async def style() -> Response:
        return DocumentResponse(stylesheet)

    async def healthz() -> PlainTextResponse:
        """200 while the server answers."""
        return PlainTextResponse("ok\n")

    hidden = {"include_in_schema": False}
    return application(
        [
            Route("/", index, documented=hidden),
            Route("/api/v1/overview", read_overview, answers=OverviewDocument),
            Route(f"/page/{STYLE}", style, documented=hidden),
            Route("/healthz", healthz, open=True, documented={"response_class": PlainTextResponse}),
        ],
        authorize,
    )


def encode(overview: Overview) -> Document:
    """Return the page of an overview."""
    html = _PAGE.render(
        title=title_of(overview),
        level=overview.level,
        verdict=overview.text,
        findings=overview.more_findings,
        count=counted(len(overview.rows), "instance"),
        instances=overview.rows,
        cells=cells,
        at=moment(overview.at_wall),
        signs=SIGNS,
    )
    return Document((html.encode(),), "text/html; charset=utf-8", HEADERS)


def title_of(overview: Overview) -> str:
    """Return the title: `watchslo: prod, all instances`."""
    return f"watchslo: {', '.join(filter(None, (overview.cluster, 'all instances')))}"


def cells(row: InstanceRow) -> tuple[str, ...]:
    """Return the texts of a row: the part, the instance, its age, version and watches, and what it says."""
    return (
        row.part or ABSENT,
        row.name,
        ABSENT if row.age is None else lasting(row.age),
        row.version or ABSENT,
        ABSENT if row.watches is None else f"{row.watches:,}",
        f"{row.text.rstrip('.')}; {row.figures}" if row.figures else row.text,
    )
