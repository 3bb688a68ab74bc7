"""The page: the newest account as HTML that needs no scripts, and the scripts that keep it up to date.

The scripts insert the texts of an `Update` of the feed, which has the same cells as the HTML.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import Request, Response

from watchslo.serve import rows
from watchslo.serve.admission_control import client_of
from watchslo.serve.document import Document, DocumentResponse
from watchslo.serve.feed import Feed
from watchslo.serve.rendering import Renderer
from watchslo.serve.route import Kind, Route
from watchslo.serve.tables import CLIENTS, CONTROLLERS
from watchslo.snapshot import Snapshot
from watchslo.templates import template
from watchslo.timeline.format import common_percentile, counted, moment, part_note
from watchslo.timeline.timeline import Account, Timeline
from watchslo.timeline.verdict import SIGNS

_PAGE = template("page.html")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Referrer-Policy": "no-referrer",
}
MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", "": "text/plain"}


def encode(account: Account) -> Document:
    """Return the page of an account."""
    snapshot = account.snapshot
    instance = snapshot.monitor.instance
    watches = sorted(rows.watches(account).values(), key=lambda line: (line.severity, line.key))
    html = _PAGE.render(
        title=instance.title,
        headline=account.headline,
        instance=instance,
        part=part_note(instance.part, snapshot.monitor.shard.elsewhere),
        not_ready=snapshot.monitor.not_ready,
        causes=snapshot.causes,
        trust=account.trust,
        checks=account.checks,
        watches=watches,
        quantile=common_percentile(line.quantile for line in watches),
        count=counted(len(watches), "watch"),
        apiservers=rows.apiservers(snapshot),
        columns_of_reactions=CONTROLLERS,
        reactions=rows.reactions(snapshot),
        columns_of_clients=CLIENTS,
        clients=rows.clients(snapshot),
        version=snapshot.monitor.build.version,
        at=moment(snapshot.at_wall),
        moment=moment,
        signs=SIGNS,
    )
    return Document((html.encode(),), "text/html; charset=utf-8", HEADERS)


# --- routes -----------------------------------------------------------------------------------------------------------


def static() -> dict[str, Document]:
    """Return styles, scripts and licences by their paths below `page/`."""
    return {name: Document((file.read_bytes(),), _media_type(name), HEADERS) for name, file in _files("", _STATIC)}


_STATIC = files(__package__).joinpath("static")


def _files(prefix: str, folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for child in folder.iterdir():
        if child.is_dir():
            yield from _files(f"{prefix}{child.name}/", child)
        else:
            yield prefix + child.name, child


def _media_type(name: str) -> str:
    return next(kind for ending, kind in MEDIA_TYPES.items() if name.endswith(ending))


def routes(latest: Callable[[], Awaitable[Snapshot]], feed: Feed) -> Iterable[Route]:
    """Return the routes of the page and its files, which are not part of the documented API."""
    renderer = Renderer[Account](feed.queries)

    async def index(request: Request) -> Response:
        account = feed.account or Timeline().observe(await latest())
        return DocumentResponse(await renderer.render(client_of(request), account, None, encode))

    def endpoint_of(document: Document) -> Callable[[], Awaitable[Response]]:
        async def endpoint() -> Response:
            return DocumentResponse(document)

        return endpoint

    hidden = {"include_in_schema": False}
    yield Route("/", index, kind=Kind.QUERY, documented=hidden)
    for name, document in static().items():
        yield Route(f"/page/{name}", endpoint_of(document), documented=hidden)
