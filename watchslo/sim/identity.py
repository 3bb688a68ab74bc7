"""The identity lease of the simulated apiserver (KEP-1965), by which clients count the apiservers of a cluster."""

import asyncio
from datetime import UTC, datetime

from watchslo.sim.cluster import Cluster
from watchslo.sim.kinds import BUILT_IN, Object
from watchslo.sim.status import StatusError

RENEW_INTERVAL_SECONDS = 10.0
NAMESPACE, NAME = "kube-system", "apiserver-simulated"
_LABELS = {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "simulated"}
_KIND = BUILT_IN["leases.coordination.k8s.io"]
_LEASE_DURATION_SECONDS = 3600


async def renew_identity_lease(cluster: Cluster) -> None:
    """Renew the lease until cancelled, as kube-apiservers do (KEP-1965)."""
    while True:
        spec = {
            "holderIdentity": NAME,
            "leaseDurationSeconds": _LEASE_DURATION_SECONDS,
            "renewTime": datetime.fromtimestamp(cluster.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        _renew(cluster, spec)
        await asyncio.sleep(RENEW_INTERVAL_SECONDS)


def _renew(cluster: Cluster, spec: Object) -> None:
    try:
        cluster.update(_KIND, NAMESPACE, NAME, lambda old: {**old, "spec": spec})
    except StatusError:  # the lease does not exist yet
        cluster.create(_KIND, NAMESPACE, {"metadata": {"name": NAME, "labels": _LABELS}, "spec": spec})
