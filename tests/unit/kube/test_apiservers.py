"""The apiservers behind the service `kubernetes`, and those that hold leases."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.kube.conftest import CHUNKED, Server, answer, chunk, hang_up, then
from watchslo.kube.apiservers import (
    LEASES,
    MOST_ADDRESSES,
    SETTLE_SECONDS,
    SLICES,
    await_change,
    count_apiservers,
    read_addresses,
    socket_of,
)
from watchslo.kube.client import Client
from watchslo.watch.failure import Reason

pytestmark = pytest.mark.usefixtures("jumping_time")

HTTPS = [{"name": "https", "port": 6443, "protocol": "TCP"}]
NOON = "2026-11-21T12:00:00.000000Z"
FORBIDDEN = answer(b"{}", "403 Forbidden")
LONG = 600.0  # seconds


def endpoint_slice(*hosts: object, kind: str = "IPv4", ports: Sequence[Mapping[str, Any]] | None = HTTPS) -> Any:
    return {"addressType": kind, "endpoints": [{"addresses": [host]} for host in hosts], "ports": ports}


def slices(*parts: Any, revision: str = "7") -> bytes:
    return answer(json.dumps({"metadata": {"resourceVersion": revision}, "items": parts}).encode())


def conditional(ready: bool | None) -> Any:  # noqa: FBT001 - as in the apiserver's JSON
    endpoint = {"addresses": ["10.0.0.1"], "conditions": {} if ready is None else {"ready": ready}}
    return {"addressType": "IPv4", "endpoints": [endpoint], "ports": HTTPS}


@pytest.mark.parametrize(
    ("parts", "urls"),
    [
        ((), ()),
        ([endpoint_slice("10.0.0.2", "10.0.0.1")], ("https://10.0.0.1:6443", "https://10.0.0.2:6443")),
        (
            [endpoint_slice("10.0.0.1"), endpoint_slice("10.0.0.1", ports=[{"name": "https", "port": 8443}])],
            ("https://10.0.0.1:6443", "https://10.0.0.1:8443"),
        ),
        ([endpoint_slice("10.0.0.1"), endpoint_slice("10.0.0.1")], ("https://10.0.0.1:6443",)),
        ([endpoint_slice("10.0.0.1", ports=[{"name": "metrics", "port": 9}, *HTTPS])], ("https://10.0.0.1:6443",)),
        ([endpoint_slice("10.0.0.1", ports=[{"port": 443}, {"port": 444}])], ("https://10.0.0.1:443",)),
        ([endpoint_slice("10.0.0.1", ports=None), endpoint_slice("10.0.0.2", ports=[{}])], ()),
        ([endpoint_slice("fd00::1", kind="IPv6")], ("https://[fd00::1]:6443",)),
        ([endpoint_slice("fd00::1", kind="IPv6"), endpoint_slice("10.0.0.1")], ("https://10.0.0.1:6443",)),
        ([endpoint_slice("fd00::1", kind="IPv6"), endpoint_slice()], ("https://[fd00::1]:6443",)),
        ([endpoint_slice("a.example", kind="FQDN")], ("https://a.example:6443",)),
        ([endpoint_slice("a..b", "a b", "", ".a", "b.example", kind="FQDN")], ("https://b.example:6443",)),
        ([endpoint_slice("10.0.0.1", ports=[{"name": "https", "port": port}]) for port in (0, -1, 65536)], ()),
        ([endpoint_slice("a", kind="Pigeon")], ()),
        ([{"addressType": "IPv4", "endpoints": None, "ports": HTTPS}], ()),
        ([conditional(ready=True)], ("https://10.0.0.1:6443",)),
        ([conditional(ready=None)], ("https://10.0.0.1:6443",)),
        ([conditional(ready=False)], ()),
        ([endpoint_slice("10.0.0.1"), 7, {"addressType": None}, endpoint_slice(7)], ("https://10.0.0.1:6443",)),
        ([endpoint_slice("10.0.0.1", "10.0.0.2", 7)], ("https://10.0.0.1:6443", "https://10.0.0.2:6443")),
        ([endpoint_slice("10.0.0.1", ports=[{"port": "https"}, *HTTPS])], ("https://10.0.0.1:6443",)),
        (
            [endpoint_slice(*(f"10.0.{number // 250}.{number % 250}" for number in range(500)))],
            tuple(
                sorted(f"https://10.0.{number // 250}.{number % 250}:6443" for number in range(500))[:MOST_ADDRESSES]
            ),
        ),
    ],
)
async def test_addresses(server: Server, client: Client, parts: Sequence[Any], urls: tuple[str, ...]) -> None:
    server.script = [slices(*parts)]
    assert await read_addresses(client) == urls
    assert f"GET {SLICES} " in server.requests[0]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://10.0.0.1:6443", "10.0.0.1:6443"),
        ("https://[fd00::1]:6443", "[FD00:0:0::1]:6443"),
        ("https://Node-1.example:6443", "node-1.example:6443"),
    ],
)
async def test_forms_of_one_address_are_equal(url: str, name: str) -> None:
    assert socket_of(url) == socket_of(f"//{name}")


async def test_odd_leases_cost_only_themselves(server: Server, client: Client) -> None:
    leases = [7, {"spec": {"renewTime": NOON}}, {"spec": {"renewTime": "noon"}}, {"spec": {"renewTime": NOON}}]
    server.script = [answer(json.dumps({"items": leases}).encode())]
    assert await count_apiservers(client) == 2


@pytest.mark.parametrize(
    ("renewed", "number"),
    [
        ([], None),
        ([None], None),
        ([NOON], 1),
        ([NOON, "2026-11-21T11:59:51.5Z", "2026-11-21T11:59:00Z"], 3),
        ([NOON, "2026-11-21T11:58:59.999999Z", "2026-11-21T11:00:01Z", None], 1),
    ],
)
async def test_count_apiservers_counts_renewed_leases(
    server: Server, client: Client, renewed: list[str | None], number: int | None
) -> None:
    server.script = [answer(json.dumps({"items": [{"spec": {"renewTime": time}} for time in renewed]}).encode())]
    assert await count_apiservers(client) == number
    assert f"GET {LEASES} " in server.requests[0]


class TestChange:
    """`await_change` returns at a change or after the time."""

    KNOWN = ("https://10.0.0.1:6443",)
    SAME = slices(endpoint_slice("10.0.0.1"))

    async def waited(self, client: Client) -> float:
        """Return after how many seconds it returns, of at most `LONG`."""
        began = time.monotonic()
        await await_change(client, LONG, self.KNOWN)
        return time.monotonic() - began

    async def test_returns_soon_if_the_addresses_differ(self, server: Server, client: Client) -> None:
        server.script = [slices(endpoint_slice("10.0.0.2"))]
        assert await self.waited(client) == pytest.approx(SETTLE_SECONDS, abs=0.01)

    async def test_returns_soon_after_an_event(self, server: Server, client: Client) -> None:
        server.script = [self.SAME, CHUNKED + chunk(b'{"type":"MODIFIED","object":{}}\n')]
        assert await self.waited(client) == pytest.approx(SETTLE_SECONDS, abs=0.01)
        assert server.requests[1].split(" ")[1] == (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
            "?labelSelector=kubernetes.io/service-name%3Dkubernetes&watch=1&timeoutSeconds=600&resourceVersion=7"
        )
        assert client.requests == {("discovery", "200"): 2}

    @pytest.mark.parametrize(
        "script",
        [
            [FORBIDDEN],
            [slices(endpoint_slice("10.0.0.1"), revision="x")],
            [SAME, FORBIDDEN],
            [SAME, CHUNKED],
            [SAME, CHUNKED + chunk(b"")],
            [SAME, then(CHUNKED, hang_up)],
            [SAME, CHUNKED + chunk(b'{"type":"ERROR","object":{"code":410}}\n')],
        ],
    )
    async def test_waits_for_the_whole_time_without_a_usable_watch(
        self, server: Server, client: Client, script: list[Any]
    ) -> None:
        server.script = list(script)
        assert await self.waited(client) == pytest.approx(LONG, abs=0.01)

    async def test_returns_the_failure_of_a_refused_watch(self, server: Server, client: Client) -> None:
        server.script = [self.SAME, FORBIDDEN]
        refused = await await_change(client, LONG, self.KNOWN)
        assert refused
        assert refused.reason is Reason.FORBIDDEN
        server.script = [self.SAME, CHUNKED]
        assert await await_change(client, LONG, self.KNOWN) is None
