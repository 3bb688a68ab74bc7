"""The alert on controllers that act late although the events of their resources are in time."""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.rules.alerts.alert import REACTIONS, WARNING, Alert
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.promql import by
from watchslo.rules.windows import MINUTE
from watchslo.snapshot import Cause


def controller_alerts(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alert on slow reactions, if they are timed."""
    if config.mode == "node" or config.reactions.resources == "none":
        return
    found = builder.exposed("watchslo_cause_active", f'cause="{Cause.CONTROLLER_SLOW}"')
    yield Alert(
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
