"""Alerts on watchslo itself: instances that are missing, overloaded, refused or misconfigured."""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.rules.alerts.alert import INSTANCES, MONITOR, UNNOTICED, Alert
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.promql import by, joined
from watchslo.rules.rule import CRITICAL, WARNING
from watchslo.rules.windows import DAY, MINUTE

REFUSALS, REFUSALS_SECONDS = 3, 10 * MINUTE
SOME_INSTANCES = 0.01  # share of instances: of thousands of nodes, some are always down or short of CPU
TAINTED_SHARE, TAINTED_SECONDS = 0.05, 10 * MINUTE


def monitor_alerts(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alerts on permissions, load, scrapes and the configuration of watchslo."""
    if config.mode == "cluster":  # otherwise requests have no `kind`, and some permissions are optional
        yield _forbidden(builder)
    yield from _overloaded(builder)
    cluster, down = builder.kept.cluster, f"{builder.exposed('up', 'PLACE')} == 0"
    yield Alert(
        name="WatchsloTargetDown",
        severity=WARNING,
        slo=MONITOR,
        expression=_missing(config, builder),
        wait=10 * MINUTE,
        impact=UNNOTICED,
        summary=f"Prometheus cannot scrape all instances of watchslo{builder.in_cluster}.",
        description=(
            f"{INSTANCES}, such as {builder.worst_instance(down)}. Watches that only these instances open are not "
            "monitored; other watches have fewer observers."
        ),
    )
    yield _absent(builder)
    reloaded = builder.exposed("watchslo_config_last_reload_successful")
    failed = "1 - watchslo_config_last_reload_successful{PLACE}"
    yield Alert(
        name="WatchsloConfigReloadFailed",
        severity=WARNING,
        slo=MONITOR,
        expression=by("count", cluster, f"{reloaded} == 0"),
        wait=5 * MINUTE,
        impact="Changed watches and objectives are not in force",
        summary=f"watchslo{builder.in_cluster} refused its new configuration.",
        description=(
            f"{INSTANCES}, such as {builder.worst_instance(failed)}. They keep their previous configuration, and their "
            "log names the error."
        ),
    )


def _missing(config: Config, builder: AlertBuilder) -> str:
    """Count the instances that are down; with shards, also those that Prometheus does not know as targets."""
    cluster, up = builder.kept.cluster, builder.exposed("up")
    if config.shard.count > 1:
        return f"{config.shard.count} - {by('sum', cluster, up)} > 0"
    return f"{by('count', cluster, f'{up} == 0')} > {SOME_INSTANCES} * {by('count', cluster, up)}"


def _forbidden(builder: AlertBuilder) -> Alert:
    refusals = builder.increase("watchslo_api_requests_total", REFUSALS_SECONDS, 'kind=~"list|watch"', 'code="403"')
    at_instance = (*builder.kept.instance, "apiserver")
    return Alert(
        name="WatchsloForbidden",
        severity=WARNING,
        slo=MONITOR,
        expression=f"{by('max', builder.kept.apiserver, by('sum', at_instance, refusals))} >= {REFUSALS}",
        wait=5 * MINUTE,
        impact=UNNOTICED,
        summary=f"watchslo lacks permissions at {builder.apiserver}.",
        description=(
            "{{ $value | humanize }} lists and watches of the last ten minutes were answered with 403 Forbidden. "
            "Resources that watchslo may not watch are not measured."
        ),
    )


def _overloaded(builder: AlertBuilder) -> Iterator[Alert]:
    """Yield an alert for most and one for some instances: only the first silences the alerts on latency."""
    cluster, tainted = builder.kept.cluster, builder.exposed("watchslo_tainted_seconds_total")
    busy = by("count", cluster, f"{builder.over('rate', tainted, TAINTED_SECONDS)} > {TAINTED_SHARE}")
    every = by("count", cluster, tainted)
    span = builder.settings.span(TAINTED_SECONDS)
    worst = builder.worst_instance(f"rate(watchslo_tainted_seconds_total{{PLACE}}[{span}])")
    for share, compared in (("most", f"> 0.5 * {every}"), ("some", f"> {SOME_INSTANCES} * {every} <= 0.5 * {every}")):
        yield Alert(
            name="WatchsloOverloaded",
            severity=WARNING,
            slo=MONITOR,
            expression=f"{busy} {compared}",
            wait=10 * MINUTE,
            impact=UNNOTICED,
            summary=f"{share} instances of watchslo{builder.in_cluster} are overloaded and late themselves.",
            description=(
                f"{INSTANCES}; the worst is {worst}. For more than {TAINTED_SHARE:.0%} of the time they lacked CPU or "
                "their loop was blocked. Events that arrive in that time are tainted and not measured."
            ),
            labels={"instances": share},
        )


def _absent(builder: AlertBuilder) -> Alert:
    cluster, info = builder.kept.cluster, builder.exposed("watchslo_build_info")
    absent = f"absent({info})"
    if cluster:  # if other clusters report, only past samples show which cluster is missing
        known = by("group", cluster, builder.over("present_over_time", info, DAY))
        absent = joined("or", (f"{known} unless {by('group', cluster, info)}", absent))
    return Alert(
        name="WatchsloAbsent",
        severity=CRITICAL,
        slo=MONITOR,
        expression=absent,
        wait=10 * MINUTE,
        impact="Late events are not noticed",
        summary=f"Prometheus scrapes no instance of watchslo{builder.in_cluster}.",
        description="No watch is monitored, and no other alert of watchslo can fire.",
    )
