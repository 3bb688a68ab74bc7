"""Alerts on watches that do not deliver: stalled, closed, starting over, or breaking a guarantee."""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.config.values import format_duration
from watchslo.rules.alerts.alert import DELIVERY, WATCHES, Alert
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.promql import by, joined
from watchslo.rules.rule import CRITICAL, WARNING
from watchslo.rules.windows import HOUR, MINUTE

STALLS, STALLS_SECONDS = 3, 30 * MINUTE
RELISTS, RELISTS_SECONDS = 6, HOUR
EXPIRIES, EXPIRIES_SECONDS = 4, 30 * MINUTE
PROOF_SECONDS = 15 * MINUTE  # how long a proven event keeps an alert firing


def delivery_alerts(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alerts on stalled and closed watches, on lists, guarantees and the headroom."""
    yield _stalled(builder)
    yield _down(builder)
    yield _repeated(
        builder,
        name="KubeWatchRelistStorm",
        counter='watchslo_relists_total{reason!~"start|inventory"}',
        times=RELISTS,
        seconds=RELISTS_SECONDS,
        impact="Controllers miss changes for a while, and requests may be slow",
        summary=f"watches of {builder.apiserver} relist repeatedly.",
        meaning="Each relist reads all objects again, which loads the apiserver, and hides the changes in between.",
    )
    yield _repeated(
        builder,
        name="KubeWatchExpiredLoop",
        counter="watchslo_expired_total",
        times=EXPIRIES,
        seconds=EXPIRIES_SECONDS,
        impact="Controllers that start or reconnect may never catch up",
        summary=f"watches of {builder.apiserver} get 410 Expired repeatedly.",
        meaning="Clients need longer to list than the apiserver keeps changes: they list, get a 410, and list again.",
    )
    yield _violated(builder)
    if config.mode == "cluster":
        yield _headroom(builder)


def _stalled(builder: AlertBuilder) -> Alert:
    stalled, stalls = builder.exposed("watchslo_watch_stalled"), builder.exposed("watchslo_stalls_total")
    often = f"{builder.over('increase', stalls, STALLS_SECONDS)} >= {STALLS}"
    span = builder.settings.span(STALLS_SECONDS)
    worst = f"max by (watch) (watchslo_watch_stalled{{PLACE}} + increase(watchslo_stalls_total{{PLACE}}[{span}]))"
    return Alert(
        name="KubeWatchStalled",
        severity=CRITICAL,
        slo=DELIVERY,
        expression=builder.watches_by_apiserver(
            joined("or", (builder.majority(f"{stalled} == 1"), builder.majority(often)))
        ),
        wait=MINUTE,
        impact="Controllers may believe that nothing changes, and not act",
        summary=f"watches of {builder.apiserver} are open but do not deliver events.",
        description=(
            f"{WATCHES}, now or repeatedly; the worst is {builder.worst_watch(worst)}. The connection is dead, or the "
            "cache of the apiserver is frozen."
        ),
    )


def _down(builder: AlertBuilder) -> Alert:
    up = builder.exposed("watchslo_watch_up")
    worst = builder.worst_watch("1 - watchslo_watch_up{PLACE}")
    return Alert(
        name="KubeWatchDown",
        severity=CRITICAL,
        slo=DELIVERY,
        expression=builder.watches_by_apiserver(builder.majority(f"{up} == 0")),
        wait=10 * MINUTE,
        impact="Controllers may receive no changes, and not act",
        summary=f"watches of {builder.apiserver} cannot be opened.",
        description=(
            f"{WATCHES}, such as {worst}. They have been closed for ten minutes, and every attempt to open them failed."
        ),
    )


def _repeated(
    builder: AlertBuilder,
    *,
    name: str,
    counter: str,
    times: int,
    seconds: float,
    impact: str,
    summary: str,
    meaning: str,
) -> Alert:
    """Return an alert on a counter that rises too often; the counter may have a matcher."""
    metric, _, matcher = counter.removesuffix("}").partition("{")
    rises = by("sum", builder.kept.instance_resource, builder.increase(metric, seconds, matcher))
    place = ",".join(filter(None, (matcher, "PLACE")))
    worst = f"sum by (watch) (increase({metric}{{{place}}}[{builder.settings.span(seconds)}]))"
    return Alert(
        name=name,
        severity=WARNING,
        slo=DELIVERY,
        expression=builder.watches_by_apiserver(builder.majority(f"{rises} >= {times}")),
        wait=0.0,
        impact=impact,
        summary=summary,
        description=(
            f"{WATCHES}, each at least {times} times in {format_duration(seconds)}, most often "
            f"{builder.worst_watch(worst)}. {meaning}"
        ),
    )


def _violated(builder: AlertBuilder) -> Alert:
    at_instance = (*builder.kept.instance, "apiserver")
    proofs = (
        by("sum", at_instance, builder.increase(metric, PROOF_SECONDS))
        for metric in ("watchslo_watch_guarantee_violations_total", "watchslo_time_travel_total")
    )
    found = joined("or", [f"{by('max', builder.kept.apiserver, proof)} > 0" for proof in proofs])
    span = builder.settings.span(PROOF_SECONDS)
    violations = f"increase(watchslo_watch_guarantee_violations_total{{PLACE}}[{span}])"
    worst = builder.worst_watch(f"sum by (watch) ({violations}) > 0")
    return Alert(
        name="KubeWatchGuaranteeViolated",
        severity=CRITICAL,
        slo=DELIVERY,
        expression=found,
        wait=0.0,
        impact="Controllers may act on a wrong state",
        summary=(
            f"{builder.apiserver} broke a guarantee of watches: events lost, repeated or out of order, or an older "
            "state."
        ),
        description=(
            "In the last 15 minutes, watches lost, repeated or reordered events, or the apiserver answered with an "
            f"older state than before, about {{{{ $value | humanize }}}} times; the worst watch is {worst}. Clients "
            "may hold a wrong state until they list again."
        ),
    )


def _headroom(builder: AlertBuilder) -> Alert:
    fits = builder.exposed("watchslo_watch_headroom_fits")
    worst = builder.worst_watch("1 - watchslo_watch_headroom_fits{PLACE}")
    return Alert(
        name="KubeWatchHeadroomShort",
        severity=WARNING,
        slo=DELIVERY,
        expression=builder.watches_by_apiserver(builder.majority(f"{fits} == 0")),
        wait=10 * MINUTE,
        impact="Controllers that start or reconnect would list without end",
        summary=f"a full list at {builder.apiserver} takes longer than the headroom (how far back a watch may begin).",
        description=(
            f"{WATCHES}, such as {worst}. A client that lists and then watches from the revision of its list gets a "
            "410 and lists again."
        ),
    )
