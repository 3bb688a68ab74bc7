"""Inhibitions for Alertmanager: an alert is silenced by another one that explains or invalidates it."""

from typing import Any

from watchslo.rules import names
from watchslo.rules.settings import RuleSettings

LATENCY = ("KubeWatchLatencyBudgetBurn", "KubeWatchLatencyBadMinutes", "KubeWatchClusterBadMinutes")


def inhibitions(settings: RuleSettings) -> list[dict[str, Any]]:
    """Return the entries of `inhibit_rules`. A silenced alert keeps firing in Prometheus."""
    kept = names.label_levels(settings)
    return [
        # If most instances are overloaded, lateness may be their own. A few cannot fire alerts that need a majority.
        _inhibition(('alertname="WatchsloOverloaded"', 'instances="most"'), _named(*LATENCY), kept.cluster),
        # An apiserver that answers nothing neither ticks nor delivers.
        _inhibition(
            ('alertname="KubeWatchApiserverUnresponsive"',),
            _named(
                *("KubeWatchDown", "KubeWatchStalled", "KubeWatchLatencyBadMinutes", "KubeWatchClusterBadMinutes"),
                "KubeWatchApiserverTicksSlow",
                *("WatchsloCoverageLow", "WatchsloUnmeasurable"),
            ),
            kept.apiserver,
        ),
        _inhibition(
            ('alertname="KubeWatchApiserverUnresponsive"',),
            _named("WatchsloClockSlow", "WatchsloWitnessesUnreached"),
            kept.cluster,
        ),
        # Without consistent reads no event can be dated, and what was withheld arrives late.
        _inhibition(
            ('alertname="KubeWatchStorageSilent"',),
            _named(
                *(*LATENCY, "KubeWatchDown", "KubeWatchStalled", "KubeWatchApiserverTicksSlow"),
                *("WatchsloClockSlow", "WatchsloCoverageLow", "WatchsloUnmeasurable", "WatchsloWitnessesUnreached"),
            ),
            kept.cluster,
        ),
        _inhibition(
            ('alertname="WatchsloForbidden"',),
            _named("KubeWatchDown", "WatchsloCoverageLow", "WatchsloUnmeasurable"),
            kept.apiserver,
        ),
        _inhibition(('alertname="KubeWatchExpiredLoop"',), _named("KubeWatchRelistStorm"), kept.apiserver),
        _inhibition(('alertname="WatchsloAbsent"',), _named("WatchsloTargetDown"), kept.cluster),
        _inhibition(
            ('alertname="KubeWatchLatencyBudgetBurn"', 'severity="critical"'),
            (*_named("KubeWatchLatencyBudgetBurn"), 'severity="warning"'),
            kept.apiserver,
        ),
        # The larger scope says how much is late, and its annotation where.
        _inhibition(
            ('alertname="KubeWatchClusterBadMinutes"', 'scope="cluster"'),
            ('alertname="KubeWatchClusterBadMinutes"', 'scope="apiserver"'),
            kept.cluster,
        ),
        _inhibition(
            ('alertname="KubeWatchClusterBadMinutes"', 'scope="apiserver"'),
            _named("KubeWatchLatencyBadMinutes"),
            kept.apiserver,
        ),
    ]


def fleet_inhibitions(settings: RuleSettings) -> list[dict[str, Any]]:
    """Return the entries of `inhibit_rules` for the alerts of the global level of a fleet."""
    return [
        _inhibition(
            ('alertname="KubeWatchFleetBudgetBurn"', 'severity="critical"'),
            (*_named("KubeWatchFleetBudgetBurn"), 'severity="warning"'),
            settings.cluster,
        ),
        _inhibition(
            ('alertname="WatchsloClusterSilent"', 'scope="fleet"'),
            (*_named("WatchsloClusterSilent"), 'scope="cluster"'),
            (),
        ),
    ]


def _named(*alerts: str) -> tuple[str, ...]:
    return (f'alertname=~"{"|".join(alerts)}"',) if len(alerts) > 1 else (f'alertname="{alerts[0]}"',)


def _inhibition(source: tuple[str, ...], target: tuple[str, ...], equal: tuple[str, ...]) -> dict[str, Any]:
    return {"source_matchers": [*source], "target_matchers": [*target], **({"equal": [*equal]} if equal else {})}
