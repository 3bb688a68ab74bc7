"""`watchslo report`: prints what was late in a past period, and why, from a daemon or from Prometheus."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import click

from watchslo.api.feed import SeriesDocument, Update
from watchslo.api.part import UnreadableError, decode
from watchslo.api.status import StatusDocument
from watchslo.app import logs
from watchslo.app.http_endpoint import NO_CREDENTIALS, DaemonCredentials, HttpEndpoint, address_of
from watchslo.app.prometheus_client import Prometheus
from watchslo.app.session import run_on_loop
from watchslo.app.status_client import STATUS_PATH, UNREADABLE, DaemonAddress, NotFoundError, StatusClient
from watchslo.config.values import parse_duration
from watchslo.errors import ConfigError, ConnectError
from watchslo.report import daemon, prometheus
from watchslo.report.brief import as_brief
from watchslo.report.daemon import DaemonDocuments, names_for_curves, with_curves
from watchslo.report.html import as_html
from watchslo.report.incident import IncidentReport, ReportPeriod
from watchslo.report.markdown import as_markdown
from watchslo.report.queries import Asked, MetricSeries, queries
from watchslo.report.wording import at
from watchslo.rules.settings import RuleSettings
from watchslo.timeline.format import printable, some_of

DEFAULT_URL = "http://127.0.0.1:9477"
FEED_PATH, SERIES_PATH = "/api/v1/events", "/api/v1/series"
NEWEST = {"window": "1s"}  # the newest figures, and the minutes of a day
END_OF_EVENT = b"}\n\n"
SHORTEST_SECONDS, LONGEST_SECONDS = 60.0, 86400.0
PROMETHEUS_SECONDS = 60.0  # for one answer: a day of hundreds of watches
AT_ONCE = 4  # queries; more of them only wait within Prometheus
EXAMPLES = "write for example 1h or 2026-03-01T14:00:00Z"

ReportForm = Literal["html", "markdown", "brief"]
WRITERS: Mapping[ReportForm, Callable[[IncidentReport], str]] = {
    "html": as_html,
    "markdown": as_markdown,
    "brief": as_brief,
}


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Where the figures come from, of which period, and how they are shown."""

    url: str | None = None
    prometheus: str | None = None
    since: str = "1h"
    until: str | None = None
    job_selector: str | None = None
    cluster_label: str | None = None
    form: ReportForm = "html"
    credentials: DaemonCredentials = NO_CREDENTIALS


def report(options: ReportOptions) -> None:
    """Print the report; raise WatchsloError if it is impossible."""
    logs.set_up("console", "critical")
    now_wall = time.time()
    period = period_of(options.since, options.until, now_wall)
    if options.prometheus is None:
        made = run_on_loop(_ask_daemon(options, period, now_wall))
    else:
        made = run_on_loop(_ask_prometheus(options, options.prometheus, period, now_wall))
    click.echo(WRITERS[options.form](made), nl=False)


# --- the period -------------------------------------------------------------------------------------------------------


def period_of(since: str, until: str | None, now_wall: float) -> ReportPeriod:
    """Return the period of a report, at most a day; raises ConfigError."""
    ends = now_wall if until is None else _moment("--until", until, now_wall)
    period = ReportPeriod(_moment("--since", since, now_wall), min(ends, now_wall))
    if period.since_wall >= now_wall:
        raise ConfigError(f"--since: {since} is not in the past; {EXAMPLES}")
    if period.seconds <= 0.0:
        raise ConfigError("--since: it must be before --until; choose an earlier --since, or a later --until")
    if period.seconds < SHORTEST_SECONDS:
        raise ConfigError("--since: the period is shorter than a minute; choose an earlier --since")
    if period.seconds > LONGEST_SECONDS + SHORTEST_SECONDS:
        raise ConfigError("--since: a report covers at most a day; choose a later --since, or an earlier --until")
    return period


def _moment(option: str, text: str, now_wall: float) -> float:
    """Return the Unix seconds of a time, or of a duration before now; a time without a zone is UTC."""
    try:
        return now_wall - parse_duration(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ConfigError(f"{option}: {text} is neither a duration nor a time; {EXAMPLES}") from None


# --- a daemon ---------------------------------------------------------------------------------------------------------


async def _ask_daemon(options: ReportOptions, period: ReportPeriod, now_wall: float) -> IncidentReport:
    place = address_of(options.url or DEFAULT_URL)
    try:
        async with StatusClient(options.credentials) as client:
            documents = await _documents(client, DaemonAddress(place), period)
    except ConnectError as error:
        remedy = "" if options.url else "; or pass the URL of the daemon, or --prometheus"
        raise ConnectError(f"{place}: {error}{remedy}") from None
    except UnreadableError:
        raise ConnectError(f"{place}: {UNREADABLE}") from None
    started = documents.status.monitor.started_at.timestamp()
    if started >= period.until_wall:
        raise ConfigError(f"--until: the daemon started later, at {at(started)}; pass --prometheus for the time before")
    return daemon.report_of(documents, period, place, now_wall)


async def _documents(client: StatusClient, address: DaemonAddress, period: ReportPeriod) -> DaemonDocuments:
    """Return the documents of a daemon; raise ConnectError if one is missing, or UnreadableError.

    Curves are asked for one by one, as the page does: all at once would delay the measurement.
    """
    status = decode((await client.read(address, STATUS_PATH)).body, StatusDocument)
    if status.verdict is None:
        raise ConnectError("it has not judged its watches yet; try again in ten seconds")
    feed = (await client.read(address, FEED_PATH, until=END_OF_EVENT)).body
    data = next((line.removeprefix(b"data:") for line in feed.splitlines() if line.startswith(b"data:")), b"")
    update = decode(data, Update)
    overview = decode((await client.read(address, SERIES_PATH, NEWEST)).body, SeriesDocument)
    curves = [await _curve(client, address, name) for name in names_for_curves(overview, update, period)]
    return DaemonDocuments(status, update, with_curves(overview, curves))


async def _curve(client: StatusClient, address: DaemonAddress, name: str) -> SeriesDocument:
    """Return the curves of the watches with a name; none if they have just been removed."""
    try:
        answer = await client.read(address, SERIES_PATH, {"resource": name, "window": "1h"})
    except NotFoundError:
        return SeriesDocument(window=0.0, step=0.0, watches=())
    return decode(answer.body, SeriesDocument)


# --- a Prometheus -----------------------------------------------------------------------------------------------------


async def _ask_prometheus(options: ReportOptions, url: str, period: ReportPeriod, now_wall: float) -> IncidentReport:
    settings = RuleSettings(cluster_label=options.cluster_label)
    if options.job_selector is not None:
        settings = replace(settings, job_selector=options.job_selector)
    try:
        endpoint = HttpEndpoint(url, options.credentials, "a Prometheus", PROMETHEUS_SECONDS)
    except ConfigError as error:
        raise ConfigError(f"--prometheus: {error}") from None
    async with endpoint:
        server = Prometheus(endpoint, "--token-file")
        try:
            await _require_metrics(server, settings, period)
            answers = await _answers(server, settings, period)
        except ConnectError as error:
            raise ConnectError(f"{endpoint.place}: {error}") from None
    cluster = _cluster(answers, settings)
    return prometheus.report_of(answers, period, endpoint.place, now_wall, cluster, server.doubts)


async def _answers(
    server: Prometheus, settings: RuleSettings, period: ReportPeriod
) -> Mapping[Asked, list[MetricSeries]]:
    turns = asyncio.Semaphore(AT_ONCE)
    asked = queries(settings, period)

    async def ask(what: Asked) -> list[MetricSeries]:
        async with turns:
            query = asked[what]
            return await server.query_range(query.expression, query.start, query.end, query.step)

    return dict(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))


async def _require_metrics(server: Prometheus, settings: RuleSettings, period: ReportPeriod) -> None:
    """Raise ConnectError, with the jobs that have metrics of watchslo, if these targets had none in the period."""
    builds = queries(settings, period)[Asked.BUILDS]
    if await server.query_range(builds.expression, builds.start, builds.end, builds.step):
        return
    seconds = max(SHORTEST_SECONDS, period.seconds)
    jobs = await server.query_range(
        f"count by (job) (last_over_time(watchslo_build_info[{seconds:.0f}s]))", builds.start, builds.end, builds.step
    )
    names = sorted(filter(None, (printable(series.metric.get("job", "")) for series in jobs)))
    if server.doubts:
        remedy = server.doubts[0].rstrip(".")
    elif names:
        remedy = f"metrics of watchslo come from the job {some_of(names)}: pass --job-selector 'job=\"{names[0]}\"'"
    else:
        remedy = "check the URL, and whether it scraped watchslo then; `watchslo doctor --prometheus` finds out why not"
    raise ConnectError(f"it has no metrics of watchslo with {settings.job_selector} in this period; {remedy}")


def _cluster(answers: Mapping[Asked, list[MetricSeries]], settings: RuleSettings) -> str | None:
    """Return the name of the only cluster; raise ConfigError if there are several, which one report cannot mix."""
    label = settings.cluster_label
    if label is None:
        return None
    names = sorted({series.metric.get(label, "") for series in answers[Asked.CLUSTERS]})
    if len(names) > 1:
        matcher = f'{settings.job_selector},{label}="{names[-1]}"'
        raise ConfigError(
            f"--cluster-label: the metrics are of several clusters, {some_of([*map(printable, names)])}; choose one "
            f"with --job-selector '{printable(matcher)}'"
        )
    return next(iter(names), None) or None
