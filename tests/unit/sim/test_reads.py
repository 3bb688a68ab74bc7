"""Reads, writes and refusals, over real HTTP; `tests/contract` has all that apiservers have in common."""

import time

import pytest

from tests.unit.sim.api import CONFIGMAPS, Answer, Simulate
from watchslo.sim.cluster import CommitTimes

EVENTS = "/api/v1/namespaces/default/events"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("collection", [CONFIGMAPS, EVENTS])
async def test_commit_times_order_reads_and_commits(simulate: Simulate, collection: str, *, reads: bool) -> None:
    api = await simulate(commit_times=CommitTimes(offset=60.0, reads=reads))
    began = (time.time() + 60) * 1e9
    first = await api.configmap("a", collection)
    read, again = await api.newest(collection), await api.newest(collection)
    second = await api.configmap("b", collection)
    assert began < first <= read <= again < second < (time.time() + 60) * 1e9
    assert (first < read < again) if reads else (first == read == again)
    exact = await api.get(f"{collection}?resourceVersion={first}&resourceVersionMatch=Exact")
    assert (names(exact), exact.revision) == (["a"], first)


async def test_token_is_required(simulate: Simulate) -> None:
    api = await simulate(token="first")
    assert (await api.get("/readyz")).code == 200
    assert (await api.get("/readyz", Authorization="Bearer wrong")).code == 401
    assert (await api.get("/apis")).code == 401
    assert (await api.get("/apis", Authorization="Bearer first")).code == 200
