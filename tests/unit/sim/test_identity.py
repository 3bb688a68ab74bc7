import asyncio
from datetime import datetime

import pytest

from tests.unit.sim.api import Simulate

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
APISERVER_LEASES = f"{LEASES}?labelSelector=apiserver.kubernetes.io/identity%3Dkube-apiserver"


async def test_identity_lease_is_renewed_each_ten_seconds(simulate: Simulate) -> None:
    api = await simulate()
    (first,) = (await api.get(APISERVER_LEASES)).json["items"]
    await asyncio.sleep(10.0)
    (later,) = (await api.get(APISERVER_LEASES)).json["items"]
    assert first["metadata"]["uid"] == later["metadata"]["uid"]
    assert (instant(later) - instant(first)).total_seconds() == pytest.approx(10.0, abs=0.01)


def instant(lease: dict[str, dict[str, str]]) -> datetime:
    return datetime.fromisoformat(lease["spec"]["renewTime"])
