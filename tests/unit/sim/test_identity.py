from datetime import datetime

import pytest

from tests.unit.sim.api import Simulate
from watchslo.sim import identity
from watchslo.sim.identity import RENEWED_SECONDS

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
OF_APISERVERS = f"{LEASES}?labelSelector=apiserver.kubernetes.io/identity%3Dkube-apiserver"


async def test_an_apiserver_says_that_it_is_there_and_goes_on_to_say_so(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RENEWED_SECONDS == 10.0
    monkeypatch.setattr(identity, "RENEWED_SECONDS", 0.0)
    api = await simulate(identity=True)
    (first,) = (await api.get(OF_APISERVERS)).json["items"]
    (later,) = (await api.get(OF_APISERVERS)).json["items"]
    assert first["metadata"]["uid"] == later["metadata"]["uid"]
    assert instant(first) < instant(later)


async def test_it_says_so_again_when_the_storage_has_forgotten_it(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "RENEWED_SECONDS", 0.0)
    api = await simulate(identity=True)
    assert (await api.write("DELETE", f"{LEASES}/{identity.NAME}")).code == 200
    assert len((await api.get(OF_APISERVERS)).json["items"]) == 1


async def test_by_default_it_keeps_to_itself(simulate: Simulate) -> None:
    api = await simulate()
    assert (await api.get(OF_APISERVERS)).json["items"] == []


def instant(lease: dict[str, dict[str, str]]) -> datetime:
    return datetime.fromisoformat(lease["spec"]["renewTime"])
