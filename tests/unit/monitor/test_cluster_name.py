"""The default name of the cluster, and when its uid is read."""

import asyncio
import json
from typing import cast

import pytest

from tests.unit.monitor.cluster import Log
from tests.unit.monitor.inside import config, running
from watchslo.kube.client import Client
from watchslo.kube.credentials import Access, ClusterPlace, Credentials, CredentialSource
from watchslo.monitor.apiservers.cluster_name import KUBE_SYSTEM, ClusterName
from watchslo.watch.failure import Failure, Reason, because
from watchslo.watch.missing_right import AGAIN_SECONDS

UID = "3f2a9c1e-5d0b-4c6e-9a37-1b7e0f6f0c11"


class Namespaces:
    """A client that gives a set answer and records what was asked."""

    def __init__(self, answer: bytes | Failure) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def document(self, path: str, accept: str) -> bytes | Failure:
        assert "as=PartialObjectMetadata;" in accept
        self.asked.append(path)
        return self.answer

    @property
    def client(self) -> Client:
        return cast("Client", self)


def namespace(uid: object) -> bytes:
    return json.dumps({"kind": "PartialObjectMetadata", "metadata": {"name": "kube-system", "uid": uid}}).encode()


async def test_name_is_the_begin_of_the_uid_and_read_once() -> None:
    cluster, name = Namespaces(namespace(UID)), ClusterName(None, None)
    await name.find(cluster.client)
    await name.find(cluster.client)
    assert (name.shown, cluster.asked) == ("3f2a9c1e", [KUBE_SYSTEM])


@pytest.mark.parametrize(("configured", "context", "shown"), [("prod", "ctx", "prod"), (None, "ctx", "ctx")])
async def test_configured_name_and_context_need_no_request(configured: str | None, context: str, shown: str) -> None:
    cluster, name = Namespaces(namespace(UID)), ClusterName(configured, context)
    await name.find(cluster.client)
    assert (name.shown, cluster.asked) == (shown, [])


@pytest.mark.parametrize(
    "answer", [because(Reason.NOT_FOUND), b"<html>", b"\xff", b"{}", namespace(7), namespace(""), namespace("a\nb")]
)
async def test_refusal_and_unusable_answers_leave_the_cluster_without_a_name(answer: bytes | Failure, log: Log) -> None:
    cluster, name = Namespaces(answer), ClusterName(None, None)
    await name.find(cluster.client)
    await name.find(cluster.client)
    assert (name.shown, len(cluster.asked)) == (None, 1)
    assert log.events == (["cluster_unnamed"] if isinstance(answer, Failure) else [])


async def test_second_refusal_a_minute_later_leaves_the_cluster_without_a_name(log: Log) -> None:
    cluster, name = Namespaces(because(Reason.FORBIDDEN)), ClusterName(None, None)
    for _ in range(4):
        await name.find(cluster.client)
        await asyncio.sleep(AGAIN_SECONDS)
    assert (name.shown, len(cluster.asked), log.events) == (None, 2, ["cluster_unnamed"])


@pytest.mark.parametrize("reason", [Reason.UNREACHABLE, Reason.THROTTLED, Reason.SERVER_ERROR, Reason.FORBIDDEN])
async def test_passing_failure_is_silent_and_the_uid_is_read_later(reason: Reason, log: Log) -> None:
    cluster, name = Namespaces(because(reason)), ClusterName(None, None)
    await name.find(cluster.client)
    assert cluster.asked == [KUBE_SYSTEM]
    cluster.answer = namespace(UID)
    await name.find(cluster.client)
    assert (name.shown, log.events) == ("3f2a9c1e", [])


async def test_snapshot_names_the_instance() -> None:
    async def load() -> Credentials:
        return Credentials(Access("https://nowhere.test"), {})

    made = config("pods", shard={"index": 1, "count": 3}, server={"view": "https://view.test/"})
    place = ClusterPlace("kind-one", "https://nowhere.test")
    async with running(made, credentials=CredentialSource(load, place=place)) as run:
        monitor = run.snapshot().monitor
    assert monitor.cluster is None, "a default name is not the configured one"
    assert monitor.instance.title == "watchslo: kind-one, shard 2 of 3"
    assert (monitor.instance.view, monitor.instance.node) == ("https://view.test/", None)
    assert monitor.instance.host
