"""Checks whether a Prometheus scrapes watchslo and can send alerts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from watchslo.app.doctor.findings import DeploymentFinding, good, problem, unchecked, warning
from watchslo.app.prometheus_client import Prometheus, Sample, ScrapeTarget
from watchslo.errors import ConnectError
from watchslo.timeline.format import counted, some_of

SCRAPED, ALERTS = "scrapes", "alerts"


def scrape_findings(
    up: Sequence[Sample], targets: Sequence[ScrapeTarget], jobs: Iterable[str], selector: str
) -> Iterator[DeploymentFinding]:
    """Yield whether the targets of a selector are scraped; `jobs` are those that expose metrics of watchslo."""
    if not up:
        others = sorted(jobs)
        text = f"Prometheus has no target with {selector}."
        if others:
            remedy = (
                f"Metrics of watchslo come from the job {some_of(others)}: pass --job-selector 'job=\"{others[0]}\"'."
            )
        else:
            remedy = "Make it scrape the port `metrics` of the pods: see the findings about the monitor."
        yield problem(SCRAPED, text, remedy)
        return
    down = [sample for sample in up if not sample.number]
    for trouble, count in _troubles(down, targets).items():
        text, remedy = _TROUBLES[trouble]
        yield problem(SCRAPED, f"{count} of {counted(len(up), 'target')} cannot be scraped: {text}.", remedy)
    if not down:
        yield good(SCRAPED, f"Prometheus scrapes {counted(len(up), 'target')} with {selector}.")


def _troubles(down: Iterable[Sample], targets: Sequence[ScrapeTarget]) -> Mapping[str, int]:
    """Count the targets that are down by what their last error shows."""
    counts: dict[str, int] = {}
    for sample in down:
        wanted = {label: sample.metric.get(label) for label in ("job", "instance")}.items()
        error = next((target.last_error for target in targets if wanted <= target.labels.items()), "")
        trouble = next((mark for mark in _TROUBLES if mark in error), "")
        counts[trouble] = counts.get(trouble, 0) + 1
    return counts


_DROPPED = (
    "packets to its port are dropped, or it is too slow",
    "Allow TCP to the port `metrics` from the namespace of Prometheus (Ingress of the NetworkPolicy).",
)
_TROUBLES: Mapping[str, tuple[str, str]] = {  # by a part of Go's or Prometheus's error; it may name the address
    "connection refused": ("the connection is refused", "Check that watchslo runs and listens at `server.listen`."),
    "deadline exceeded": _DROPPED,
    "i/o timeout": _DROPPED,
    "status 401": ("it requires a token", "Let the monitor send a token: see the component `authorization`."),
    "status 403": ("the token may not read /metrics", "Bind the reader role of the component `authorization` to it."),
    "x509": ("its certificate is not accepted", "Give the monitor its CA: see the component `tls`."),
    "HTTP response to HTTPS": ("it speaks plain HTTP", "Write `scheme: http` in the monitor."),
    "status 400": ("it speaks TLS only", "Write `scheme: https` in the monitor: see the component `tls`."),
    "": ("the reason is on the page of targets of Prometheus", "Look at Status > Target health there."),
}


def version_findings(found: Iterable[Sample], ours: str) -> Iterator[DeploymentFinding]:
    """Yield whether the scraped instances have the version of this command, by `watchslo_build_info`."""
    versions = {sample.metric.get("version", "unknown") for sample in found}
    if others := sorted(versions - {ours}):
        yield warning(
            "version",
            f"Prometheus scrapes version {some_of(others)}, and this command is {ours}: rules and panels may differ.",
            "Run the same version everywhere, and apply its rules and dashboards.",
        )
    elif versions:
        yield good("version", f"All scraped instances have version {ours}.")


async def check_scrapes(prometheus: Prometheus, selector: str, version: str) -> list[DeploymentFinding]:
    """Ask for the targets and their versions."""
    up = await prometheus.query(f"up{{{selector}}}")
    jobs = {sample.metric.get("job", "") for sample in await prometheus.query("count by (job) (watchslo_build_info)")}
    try:
        targets = await prometheus.targets()
    except ConnectError:  # some servers with the API of Prometheus have no targets
        targets = []
    builds = await prometheus.query(f"count by (version) (watchslo_build_info{{{selector}}})")
    return [*scrape_findings(up, targets, jobs - {""}, selector), *version_findings(builds, version)]


async def check_alertmanagers(prometheus: Prometheus) -> list[DeploymentFinding]:
    """Ask whether alerts go anywhere."""
    try:
        count = await prometheus.alertmanagers()
    except ConnectError as error:
        return [unchecked(ALERTS, f"Whether Prometheus sends alerts to an Alertmanager is not known: {error}.")]
    if count:
        return [good(ALERTS, f"Prometheus sends alerts to {counted(count, 'Alertmanager')}.")]
    remedy = "Name an Alertmanager in the configuration of Prometheus (`alerting`)."
    return [warning(ALERTS, "Prometheus sends alerts to no Alertmanager.", remedy)]
