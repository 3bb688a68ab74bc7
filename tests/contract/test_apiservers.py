"""Discovery of apiservers: the EndpointSlices of their service, and their leases."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.backend import real
from tests.support.process import PATIENCE_SECONDS
from tests.support.writer import StatusError, Writer
from watchslo.kube.apiservers import await_change, count_apiservers, read_addresses
from watchslo.kube.client import Client
from watchslo.watch.failure import Failure

pytestmark = real("a simulated apiserver has no EndpointSlice")

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
LOOK_SECONDS = 0.1


def endpoint_slice(name: str, address: str, kind: str = "IPv4") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": kind,
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "https", "port": 7443}],
    }


@pytest.fixture
def announced(writer: Writer, fresh_name: Callable[[], str]) -> Iterator[str]:
    """The name of a second slice for IPv4, next to the apiserver's own; a third slice is for IPv6."""
    name = fresh_name()
    writer.create(SLICES, endpoint_slice(name, "10.9.0.1"))
    writer.create(SLICES, endpoint_slice(f"{name}-6", "fd00::1", "IPv6"))
    yield name
    writer.delete(f"{SLICES}/{name}-6")
    writer.delete(f"{SLICES}/{name}")


async def addresses(client: Client) -> tuple[str, ...]:
    found = await read_addresses(client)
    assert not isinstance(found, Failure)
    return found


async def test_each_slice_has_its_own_port(client: Client, announced: str) -> None:
    assert announced
    found = await addresses(client)
    assert "https://10.9.0.1:7443" in found
    assert not [url for url in found if "[" in url]


async def test_watch_of_slices_shows_moved_address(client: Client, writer: Writer, announced: str) -> None:
    known = await addresses(client)
    moved = asyncio.create_task(
        asyncio.to_thread(writer.patch, f"{SLICES}/{announced}", {"endpoints": [{"addresses": ["10.9.0.2"]}]})
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "https://10.9.0.2:7443" not in known:  # the apiserver's own slice may come first
            await await_change(client, 2 * PATIENCE_SECONDS, known)
            known = await addresses(client)
    assert "https://10.9.0.1:7443" not in known
    await moved


def test_loopback_addresses_are_refused(writer: Writer, fresh_name: Callable[[], str]) -> None:
    with pytest.raises(StatusError, match="loopback"):
        writer.create(SLICES, endpoint_slice(fresh_name(), "127.0.0.1"))


async def test_apiservers_on_one_host_count_as_one(client: Client) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            count = await count_apiservers(client)
            if isinstance(count, int) and count:  # an apiserver is ready before it has a lease
                break
            await asyncio.sleep(LOOK_SECONDS)
    assert count == 1
