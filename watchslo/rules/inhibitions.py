"""Inhibitions for Alertmanager: what explains another alert, or makes it worthless, silences it."""

from typing import Any

from watchslo.rules import names
from watchslo.rules.options import Options

LATENCY = ("WatchLatencyBudgetBurn", "WatchLatencyBadMinutes")


def inhibitions(options: Options) -> list[dict[str, Any]]:
    """The entries of `inhibit_rules`. An alert that is silenced goes on in Prometheus."""
    kept = names.levels(options)
    return [
        # Lateness may be that of most of the monitors. Of some it is not, and would be left out anyway.
        _inhibition(('alertname="WatchsloOverloaded"', 'instances="most"'), _named(*LATENCY), kept.cluster),
        _inhibition(
            ('alertname="WatchsloClockStopped"',),
            _named(*LATENCY, "WatchsloClockSlow", "WatchsloCoverageLow", "WatchsloUnmeasurable"),
            kept.apiserver,
        ),
        _inhibition(('alertname="WatchsloForbidden"',), _named("WatchDown"), kept.apiserver),
        _inhibition(('alertname="WatchExpiredLoop"',), _named("WatchRelistStorm"), kept.apiserver),
        _inhibition(('alertname="WatchsloAbsent"',), _named("WatchsloTargetDown"), kept.cluster),
        _inhibition(
            ('alertname="WatchLatencyBudgetBurn"', 'severity="critical"'),
            (*_named("WatchLatencyBudgetBurn"), 'severity="warning"'),
            kept.apiserver,
        ),
    ]


def _named(*alerts: str) -> tuple[str, ...]:
    return (f'alertname=~"{"|".join(alerts)}"',) if len(alerts) > 1 else (f'alertname="{alerts[0]}"',)


def _inhibition(source: tuple[str, ...], target: tuple[str, ...], equal: tuple[str, ...]) -> dict[str, Any]:
    return {"source_matchers": [*source], "target_matchers": [*target], **({"equal": [*equal]} if equal else {})}
