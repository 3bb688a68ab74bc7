"""The page: the newest account as HTML that needs no scripts, and the scripts that keep it up to date.

The scripts insert the texts of an `Update` of the feed, which has the same cells as the HTML.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template

from fastapi import Request, Response

from watchslo.api.feed import ApiserverLine, WatchLine
from watchslo.serve import rows
from watchslo.serve.admission_control import client_of
from watchslo.serve.document import Document, DocumentResponse
from watchslo.serve.feed import Feed
from watchslo.serve.rendering import Renderer
from watchslo.serve.route import Kind, Route
from watchslo.snapshot import CauseReading, MonitorReading, Snapshot
from watchslo.timeline.format import common_percentile, counted, moment, part_note
from watchslo.timeline.headline import Headline
from watchslo.timeline.self_checks import SelfCheck
from watchslo.timeline.timeline import Account, Timeline
from watchslo.timeline.verdict import SIGNS

_INDEX = Template(files(__package__).joinpath("index.html").read_text())
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
    watches = sorted(rows.watches(account).values(), key=lambda line: (line.severity, line.key))
    html = _INDEX.substitute(
        title=escape(snapshot.monitor.instance.title),
        verdict=_verdict(account.headline),
        part=_part(snapshot.monitor),
        trust=_trust(account.trust),
        causes="".join(f"<li>{_cause(cause)}" for cause in snapshot.causes),
        readiness=_readiness(snapshot.monitor),
        checks="".join(
            f'<li class="{check.level}"><span aria-hidden="true">{SIGNS[check.level]}</span> '
            f"<strong>{escape(check.name)}</strong> {escape(check.text)}"
            for check in account.checks
        ),
        watches="\n".join(map(_watch_row, watches)),
        quantile=common_percentile(line.quantile for line in watches),
        count=counted(len(watches), "watch"),
        apiservers="\n".join(map(_apiserver_row, rows.apiservers(snapshot))),
        version=escape(snapshot.monitor.build.version),
        at=moment(snapshot.at_wall),
    )
    return Document((html.encode(),), "text/html; charset=utf-8", HEADERS)


def _verdict(headline: Headline) -> str:
    return (
        f'<p id="headline" class="{headline.level}" aria-live="polite" aria-atomic="true">'
        f'<span aria-hidden="true">{SIGNS[headline.level]}</span> <span>{escape(headline.text)}</span></p>'
        f'<p id="figures">{escape(headline.figures)}</p>'
    )


def _part(monitor: MonitorReading) -> str:
    """Return what is not on this page, and where the whole is."""
    instance = monitor.instance
    whole = "" if instance.part is None else "<code>watchslo view</code> shows all instances."
    if instance.view:
        whole = f'<a href="{escape(instance.view)}">All instances</a>'
    return f'<p id="part"><span>{escape(part_note(instance.part, monitor.shard.elsewhere))}</span> {whole}</p>'


def _trust(check: SelfCheck) -> str:
    return (
        f'<p id="trust" class="{check.level}"><span aria-hidden="true">{SIGNS[check.level]}</span> '
        f'<a href="#trust-title">{escape(check.name)}</a> <span>{escape(check.text)}</span></p>'
    )


def _cause(cause: CauseReading) -> str:
    since = f"{cause.confidence} confidence, since {moment(cause.since_wall)} UTC"
    named = f"<small>{escape(str(cause.cause))}: {since}</small>"
    return f"{escape(cause.evidence)} {named}<p>{escape(cause.next)}</p>"


def _readiness(monitor: MonitorReading) -> str:
    return "".join(f"<li>{escape(reason)}" for reason in monitor.not_ready)


# --- tables -----------------------------------------------------------------------------------------------------------


def _watch_row(watch: WatchLine) -> str:
    return _row(watch.key, watch.cells, ' class="bad"' if watch.bad else "")


def _apiserver_row(apiserver: ApiserverLine) -> str:
    return _row(apiserver.name, apiserver.cells)


def _row(key: str, cells: Sequence[str], attributes: str = "") -> str:
    name, *texts = map(escape, cells)
    row = "".join(f"<td>{text}" for text in texts)
    return f'<tr data-key="{escape(key)}"{attributes}><th scope="row">{name}</th>{row}</tr>'


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
