"""The lease by which an apiserver says that it is there: how many of them a cluster has is counted by these."""

import asyncio
from datetime import UTC, datetime

from watchslo.sim.cluster import Cluster
from watchslo.sim.kinds import BUILT_IN, Object
from watchslo.sim.status import StatusError

RENEWED_SECONDS = 10.0
NAMESPACE, NAME = "kube-system", "apiserver-simulated"
_LABELS = {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "simulated"}
_KIND = BUILT_IN["leases.coordination.k8s.io"]
_GONE_AFTER_SECONDS = 3600


async def announce(cluster: Cluster) -> None:
    """Renews the lease until it is cancelled, as kube-apiservers do (KEP-1965)."""
    while True:
        spec = {
            "holderIdentity": NAME,
            "leaseDurationSeconds": _GONE_AFTER_SECONDS,
            "renewTime": datetime.fromtimestamp(cluster.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        _renew(cluster, spec)
        await asyncio.sleep(RENEWED_SECONDS)


def _renew(cluster: Cluster, spec: Object) -> None:
    try:
        cluster.update(_KIND, NAMESPACE, NAME, lambda old: {**old, "spec": spec})
    except StatusError:  # there is none yet, or none in a storage that was restored
        cluster.create(_KIND, NAMESPACE, {"metadata": {"name": NAME, "labels": _LABELS}, "spec": spec})
