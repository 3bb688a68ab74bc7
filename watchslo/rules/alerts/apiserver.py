"""Alerts on outages: an apiserver, or the storage of all of them, answers nothing."""

from collections.abc import Iterator

from watchslo.rules.alerts.alert import DELIVERY, INSTANCES, Alert
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.promql import by
from watchslo.rules.rule import CRITICAL
from watchslo.rules.windows import MINUTE
from watchslo.snapshot import OverallVerdict


def apiserver_alerts(builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alerts on an apiserver, and on the storage, that answers nothing."""
    yield _unresponsive(builder)
    yield _storage_silent(builder)


def _unresponsive(builder: AlertBuilder) -> Alert:
    """Return an alert on an apiserver that most of its instances get no answer from."""
    up, apiserver = builder.exposed("watchslo_apiserver_up"), builder.kept.apiserver
    return Alert(
        name="KubeWatchApiserverUnresponsive",
        severity=CRITICAL,
        slo=DELIVERY,
        expression=f"{by('count', apiserver, f'{up} == 0')} > 0.5 * {by('count', apiserver, up)}",
        wait=MINUTE,
        impact="Controllers, schedulers and kubelets act on old state",
        summary=f"{builder.apiserver} answers nothing.",
        description=(
            "It has sent no answer and no event to {{ $value }} of our instances for more than a minute although it "
            "was asked. Clients that are connected to it receive no changes."
        ),
    )


def _storage_silent(builder: AlertBuilder) -> Alert:
    """Return an alert on a storage that answers no apiserver, as the verdict of most instances says."""
    said, cluster = builder.exposed("watchslo_verdict"), builder.kept.cluster
    silent = builder.exposed("watchslo_verdict", f'verdict="{OverallVerdict.STORAGE_SILENT}"')
    return Alert(
        name="KubeWatchStorageSilent",
        severity=CRITICAL,
        slo=DELIVERY,
        expression=f"{by('count', cluster, f'{silent} == 1')} > 0.5 * {by('count', cluster, f'{said} == 1')}",
        wait=MINUTE,
        impact="Nothing can be written, and nothing new happens",
        summary=f"the storage answers no apiserver{builder.in_cluster}.",
        description=(
            f"{INSTANCES}. No consistent read has been answered for more than a minute through any apiserver, while "
            "the apiservers answer other requests. etcd is down, has no quorum, or cannot be reached. The lateness of "
            "events is unknown until it answers."
        ),
    )
