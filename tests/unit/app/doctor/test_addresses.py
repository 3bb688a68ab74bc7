"""Findings about addresses: which answer, why others do not, and how many apiservers there are."""

import asyncio
import errno
import socket
from collections.abc import Callable

import pytest

from tests.unit.app.doctor.shown import findings_transcript
from watchslo.app.doctor.addresses import (
    AddressResult,
    Reach,
    address_findings,
    peer_findings,
    port_of,
    storage_findings,
    tcp_reach,
)
from watchslo.snapshot import ApiserverRole, StorageKind
from watchslo.watch.failure import Failure, Reason, because

MEMBER, _, WITNESS = ApiserverRole
SILENT = because(Reason.UNREACHABLE)
FORBIDDEN = because(Reason.FORBIDDEN)
ONE, THREE = ("https://a",), ("https://a", "https://b", "https://c")


def report(answer: str | Failure, role: ApiserverRole = MEMBER, reach: Reach | None = None) -> AddressResult:
    return AddressResult("10.0.0.1:6443", "https://10.0.0.1:6443", role, answer, reach)


K3S = [report("v1.36.3+k3s1"), report("v1.36.3+k3s1"), report(SILENT)]
UPSTREAM = [report("v1.36.3")]
STATES = {
    "two versions": address_findings([report("v1.36.3"), AddressResult("service", "https://s", MEMBER, "v1.35.0")]),
    "the version is forbidden": address_findings([report(FORBIDDEN)]),
    "the version is not served": address_findings([report(because(Reason.NOT_FOUND))]),
    "dropped packets": address_findings([report(SILENT, MEMBER, Reach.DROPPED)]),
    "dropped packets to a witness": address_findings([report(SILENT, WITNESS, Reach.DROPPED)]),
    "a witness refuses": address_findings([report(because(Reason.REFUSED), WITNESS)]),
    **{
        f"TLS fails, and the port is {reach or 'not tried'}": address_findings(
            [report(because(Reason.TLS), reach=reach)]
        )
        for reach in (Reach.OPEN, Reach.REFUSED, Reach.NO_ROUTE, Reach.UNRESOLVED, None)
    },
    "service, one address, one lease": peer_findings("service", ONE, 1),
    "service, one address, no lease is known": peer_findings("service", ONE, None),
    "service, one address, three leases": peer_findings("service", ONE, 3),
    "service, three addresses": peer_findings("service", THREE, 3),
    "service, no address": peer_findings("service", (), None),
    "service, addresses are forbidden": peer_findings("service", FORBIDDEN, 3),
    "each, one address, no lease": peer_findings("each", ONE, 0),
    "each, one address, two leases": peer_findings("each", ONE, 2),
    "each, three addresses": peer_findings("each", THREE, 3),
    "each, three addresses, leases are forbidden": peer_findings("each", THREE, FORBIDDEN),
    "each, one address, leases are forbidden": peer_findings("each", ONE, FORBIDDEN),
    "three named addresses, two leases": peer_findings(THREE, THREE, 2),
    "k3s, storage unknown": storage_findings(K3S, "auto", StorageKind.UNKNOWN),
    "k3s, storage in one sequence": storage_findings(K3S, "auto", StorageKind.SEQUENCE),
    "k3s, storage configured": storage_findings(K3S, "etcd", StorageKind.UNKNOWN),
    "k3s, kine": storage_findings(K3S, "auto", StorageKind.KINE),
    "k3s, kine on SQLite": storage_findings(K3S, "kine-sqlite", StorageKind.KINE),
    "upstream, storage unknown": storage_findings(UPSTREAM, "auto", StorageKind.UNKNOWN),
    "upstream, storage is forbidden": storage_findings(UPSTREAM, "auto", FORBIDDEN),
}


def test_findings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("doctor/addresses.txt", findings_transcript(STATES))


def test_port_of_urls_without_port_is_that_of_the_scheme() -> None:
    assert [port_of(url) for url in ("https://a", "http://a", "https://[::1]:6443")] == [443, 80, 6443]


class TestTcpReach:
    async def test_listening_port_is_open(self) -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            assert await tcp_reach(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") is Reach.OPEN

    async def test_closed_port_refuses(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            free = taken.getsockname()[1]
        assert await tcp_reach(f"http://127.0.0.1:{free}") is Reach.REFUSED

    async def test_silence_means_dropped_packets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def silent(*_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(asyncio, "open_connection", silent)
        assert await tcp_reach("https://10.0.0.1:6443", seconds=0.01) is Reach.DROPPED

    @pytest.mark.parametrize(
        ("error", "reach"),
        [
            (OSError(errno.ETIMEDOUT, ""), Reach.DROPPED),
            (OSError(errno.EHOSTUNREACH, ""), Reach.NO_ROUTE),
            (OSError(errno.ECONNREFUSED, ""), Reach.REFUSED),
            (socket.gaierror(), Reach.UNRESOLVED),
        ],
    )
    async def test_errors(self, error: OSError, reach: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
        async def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(asyncio, "open_connection", fail)
        assert await tcp_reach("https://a") is reach
