"""The page for people: the newest account as HTML that needs no script, and the scripts that keep it new.

What is shown is an `Update`, as it is told to onlookers: the scripts write the same cells from the same values.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template

from fastapi import Response

from watchslo.history.chronicle import Account, Chronicle
from watchslo.history.headline import Headline, Level
from watchslo.history.judgement import BAD, Condition
from watchslo.history.trust import Check
from watchslo.history.words import ABSENT, counted, duration, moment
from watchslo.serve import update
from watchslo.serve.feed import Feed
from watchslo.serve.rendering import Document, Renderer
from watchslo.serve.route import Route
from watchslo.snapshot import CauseReading, MonitorReading, Snapshot

_INDEX = Template(files(__package__).joinpath("index.html").read_text())
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Referrer-Policy": "no-referrer",
}
MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", "": "text/plain"}
SIGNS = {Level.GOOD: "✓", Level.BAD: "✗", Level.UNKNOWN: "?"}  # colours are never alone
WORST_FIRST = tuple(Condition)


def encode(account: Account) -> Document:
    """The page of an account."""
    snapshot = account.snapshot
    cluster = snapshot.monitor.cluster
    watches = sorted(update.watches(account).values(), key=lambda one: (WORST_FIRST.index(one.condition), one.key))
    html = _INDEX.substitute(
        title=escape(f"watchslo: {cluster}" if cluster else "watchslo"),
        verdict=_verdict(account.headline),
        trust=_trust(account.trust),
        causes="".join(f"<li>{_cause(cause)}" for cause in snapshot.causes),
        readiness=_readiness(snapshot.monitor),
        checks="".join(
            f'<li class="{check.level}"><span aria-hidden="true">{SIGNS[check.level]}</span> '
            f"<strong>{escape(check.name)}</strong> {escape(check.text)}"
            for check in account.checks
        ),
        watches="\n".join(map(_watch_row, watches)),
        count=counted(len(watches), "watch"),
        apiservers="\n".join(map(_apiserver_row, update.apiservers(snapshot))),
        version=escape(snapshot.monitor.build.version),
        at=moment(snapshot.at_wall),
    )
    return Document(html.encode(), "text/html; charset=utf-8", HEADERS)


def _verdict(headline: Headline) -> str:
    return (
        f'<p id="headline" class="{headline.level}" aria-live="polite" aria-atomic="true">'
        f'<span aria-hidden="true">{SIGNS[headline.level]}</span> <span>{escape(headline.text)}</span></p>'
        f'<p id="figures">{escape(headline.figures)}</p>'
    )


def _trust(check: Check) -> str:
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


# --- tables: their cells are written again in tables.js ---------------------------------------------------------------


def _watch_row(watch: update.WatchLine) -> str:
    bad = ' class="bad"' if watch.condition in BAD else ""
    cells = "".join(f"<td>{escape(text)}" for text in watch_cells(watch))
    return f'<tr data-key="{escape(watch.key)}"{bad}><th scope="row">{escape(watch.watch)}</th>{cells}</tr>'


def watch_cells(watch: update.WatchLine) -> tuple[str, ...]:
    """What stands in a watch's row, after its name."""
    return (
        watch.apiserver,
        _condition(watch),
        watch.state,
        _estimate(watch.p50),
        _estimate(watch.p99),
        _bounds(watch.p99),
        duration(watch.threshold),
        f"{watch.events:,}",
        f"{watch.last_event:%H:%M:%S}" if watch.last_event else ABSENT,
        ABSENT if watch.behind is None else f"{watch.behind:,}",
        f"{watch.closes:,}",
        f"{watch.relists:,}",
        f"{watch.expired:,}",
        _duration(watch.bookmark_age),
        watch.failure or ABSENT,
    )


def _condition(watch: update.WatchLine) -> str:
    if watch.stalled_for is not None:
        return f"{watch.condition} for {duration(watch.stalled_for)}"
    return f"{watch.condition} since {watch.since:%H:%M}" if watch.condition in BAD else str(watch.condition)


def _apiserver_row(apiserver: update.ApiserverLine) -> str:
    cells = "".join(f"<td>{escape(text)}" for text in apiserver_cells(apiserver))
    return f'<tr data-key="{escape(apiserver.name)}"><th scope="row">{escape(apiserver.name)}</th>{cells}</tr>'


def apiserver_cells(apiserver: update.ApiserverLine) -> tuple[str, ...]:
    """What stands in an apiserver's row, after its name."""
    stands_for = f" (stands for {apiserver.peers})" if (apiserver.peers or 1) > 1 else ""
    short = ", too short" if apiserver.fits is False else ""
    return (
        f"{apiserver.version or ABSENT}{stands_for}",
        f"{apiserver.open} of {apiserver.watches}" if apiserver.watched else "not watched",
        apiserver.failure or _duration(apiserver.tick),
        _estimate(apiserver.p50),
        _estimate(apiserver.p99),
        _estimate(apiserver.own_p99),
        _duration(apiserver.behind_peers),
        ABSENT if apiserver.remembers is None else f"{duration(apiserver.remembers)} ({apiserver.remembers_of}{short})",
        ", ".join(apiserver.causes) or ABSENT,
    )


def _duration(seconds: float | None) -> str:
    return ABSENT if seconds is None else duration(seconds)


def _estimate(figure: update.Figure | None) -> str:
    if figure is None:
        return ABSENT
    if figure.resolved:
        return _duration(figure.estimate)
    return f"below {duration(figure.round_trip)}" if figure.round_trip else "unresolved"


def _bounds(figure: update.Figure | None) -> str:
    return f"{duration(figure.lower)} to {_duration(figure.upper)}" if figure else ABSENT


# --- what is served ---------------------------------------------------------------------------------------------------


def static() -> dict[str, Document]:
    """Styles, scripts and licences, by their paths below `page/`."""
    return {name: Document(file.read_bytes(), _media_type(name), HEADERS) for name, file in _files("", _STATIC)}


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
    """The page and what it loads; none of it is of the API."""
    renderer = Renderer()

    async def index() -> Response:
        account = feed.account or Chronicle().observe(await latest())
        return _response(await renderer.render(account.snapshot, None, lambda _: encode(account)))

    def file(document: Document) -> Callable[[], Awaitable[Response]]:
        async def endpoint() -> Response:
            return _response(document)

        return endpoint

    hidden = {"include_in_schema": False}
    yield Route("/", index, documented=hidden)
    for name, document in static().items():
        yield Route(f"/page/{name}", file(document), documented=hidden)


def _response(document: Document) -> Response:
    return Response(document.body, media_type=document.content_type, headers=dict(document.headers))
