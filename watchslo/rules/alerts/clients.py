"""The alerts on other clients: controllers that act late, and caches that lack events which were in time."""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.rules.alerts.alert import CACHES, REACTIONS, Alert
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.promql import by
from watchslo.rules.rule import WARNING
from watchslo.rules.windows import MINUTE
from watchslo.snapshot import Cause, StoreVerdict

PAGES_SECONDS = 10 * MINUTE  # sixty pages of a client
MOST_STALE = 0.5  # of them


def client_alerts(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alerts on what clients do with events; without a clock, nothing dates it."""
    if config.mode == "node":
        return
    if config.reactions.resources != "none":
        yield _reaction_slow(builder)
    yield _informer_stale(builder)


def _reaction_slow(builder: AlertBuilder) -> Alert:
    found = builder.exposed("watchslo_cause_active", f'cause="{Cause.CONTROLLER_SLOW}"')
    return Alert(
        name="KubeReactionSlow",
        severity=WARNING,
        slo=REACTIONS,
        expression=f"{by('max', (*builder.kept.cluster, 'watch'), found)} == 1",
        wait=10 * MINUTE,
        impact="What users change in the cluster takes effect late",
        summary=f"a controller of {{{{ $labels.watch }}}}{builder.in_cluster} is slow or does not act.",
        description=(
            "It is proven to take longer than the threshold of the step. The events of {{ $labels.watch }} are not "
            "late, so the delay is in the controller itself. Page and `watchslo top` name the step."
        ),
    )


def _informer_stale(builder: AlertBuilder) -> Alert:
    """Build the alert on the caches of a client; the worst of its caches counts for each page, and one instance."""
    reads = "watchslo_informer_reads_total"
    stale = builder.increase(reads, PAGES_SECONDS, f'verdict="{StoreVerdict.STALE}"')
    every = f"sum without (verdict) ({builder.increase(reads, PAGES_SECONDS)})"
    share = by("max", (*builder.kept.cluster, "client"), f"sum without (verdict) ({stale}) / {every}")
    return Alert(
        name="KubeInformerStale",
        severity=WARNING,
        slo=CACHES,
        expression=f"{share} > {MOST_STALE}",
        wait=5 * MINUTE,
        impact="A controller decides on old data",
        summary=f"a cache of {{{{ $labels.client }}}}{builder.in_cluster} lacks events that were delivered in time.",
        description=(
            "{{ $value | humanizePercentage }} of its pages in the last ten minutes showed a cache that lacks an event "
            "for longer than the threshold. Our own watch of the resource has received it. Page and `watchslo top` "
            "name the resource."
        ),
    )
