"""Findings about addresses: which answer, why others do not, and how many apiservers there are."""

import asyncio
import errno
import socket
from collections.abc import Iterable

import pytest

from watchslo.app.doctor.addresses import (
    AddressReport,
    Reach,
    address_findings,
    peer_findings,
    port_of,
    storage_findings,
    tcp_reach,
)
from watchslo.app.doctor.findings import DeploymentFinding, FindingLevel
from watchslo.snapshot import ApiserverRole, StorageKind
from watchslo.watch.failure import Failure, Reason, because

PROBLEM, WARNING, UNCHECKED, GOOD = FindingLevel
MEMBER, _, WITNESS = ApiserverRole
SILENT = because(Reason.UNREACHABLE)


def report(answer: str | Failure, role: ApiserverRole = MEMBER, reach: Reach | None = None) -> AddressReport:
    return AddressReport("10.0.0.1:6443", "https://10.0.0.1:6443", role, answer, reach)


def only(findings: Iterable[DeploymentFinding]) -> DeploymentFinding:
    (finding,) = findings
    return finding


class TestAddressFindings:
    def test_answering_apiservers_are_named_with_their_versions(self) -> None:
        other = AddressReport("service", "https://s", MEMBER, "v1.35.0")
        finding = only(address_findings([report("v1.36.3"), other]))
        assert finding.level is GOOD
        assert finding.text == "2 apiservers can be asked: 10.0.0.1:6443 and service (v1.35.0 and v1.36.3)."

    @pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.NOT_FOUND])
    def test_apiserver_that_hides_its_version_answers(self, reason: Reason) -> None:
        assert only(address_findings([report(because(reason))])).level is GOOD

    @pytest.mark.parametrize(("role", "level"), [(MEMBER, PROBLEM), (WITNESS, WARNING)])
    def test_dropped_packets_name_the_port_to_allow(self, role: ApiserverRole, level: FindingLevel) -> None:
        finding = only(address_findings([report(SILENT, role, Reach.DROPPED)]))
        assert finding.level is level
        assert "10.0.0.1:6443: a connection to port 6443 is neither accepted nor refused" in finding.text
        assert "NetworkPolicy" in finding.text
        assert finding.remedy.startswith("Allow TCP port 6443 from the pods of watchslo (Egress")

    @pytest.mark.parametrize("reach", [Reach.OPEN, Reach.REFUSED, Reach.NO_ROUTE, Reach.UNRESOLVED, None])
    def test_other_failures_do_not_blame_a_network_policy(self, reach: Reach | None) -> None:
        finding = only(address_findings([report(because(Reason.TLS), reach=reach)]))
        assert finding.level is PROBLEM
        assert finding.text == f"10.0.0.1:6443: {because(Reason.TLS).message}"
        assert "NetworkPolicy" not in finding.remedy

    def test_unanswering_witness_is_a_warning_with_its_runbook(self) -> None:
        finding = only(address_findings([report(because(Reason.REFUSED), WITNESS)]))
        assert finding.level is WARNING
        assert "WatchsloWitnessesUnreached" in finding.remedy


class TestPeerFindings:
    one, three = ("https://a",), ("https://a", "https://b", "https://c")

    @pytest.mark.parametrize(
        ("wanted", "announced", "leases", "level", "text"),
        [
            ("service", one, 1, GOOD, "1 apiserver can be distinguished."),
            ("service", one, None, WARNING, "no lease tells whether it leads to several apiservers"),
            ("each", one, 0, WARNING, "hops and creation latencies are not measured"),
            ("each", three, 3, GOOD, "3 apiservers can be distinguished."),
            (three, three, 2, GOOD, "3 apiservers can be distinguished."),
            ("service", three, 3, WARNING, "One address leads to any of 3 apiservers"),
            ("service", one, 3, WARNING, "3 apiservers renew leases, but 1 can be distinguished"),
            ("each", one, 2, WARNING, "2 apiservers renew leases, but 1 can be distinguished"),
            ("service", (), None, UNCHECKED, "announces no address"),
        ],
    )
    def test_number_of_apiservers(
        self,
        wanted: str | tuple[str, ...],
        announced: tuple[str, ...],
        leases: int | None,
        level: FindingLevel,
        text: str,
    ) -> None:
        finding = only(peer_findings(wanted, announced, leases))
        assert finding.level is level
        assert text in finding.text

    def test_one_address_for_several_suggests_each(self) -> None:
        assert "apiservers: each" in only(peer_findings("service", self.three, 3)).remedy

    def test_unread_addresses_are_not_checked(self) -> None:
        finding = only(peer_findings("service", because(Reason.FORBIDDEN), 3))
        assert finding.level is UNCHECKED

    def test_unread_leases_are_not_checked_but_addresses_are(self) -> None:
        found = [*peer_findings("each", self.three, because(Reason.FORBIDDEN))]
        assert [finding.level for finding in found] == [UNCHECKED, GOOD]
        found = [*peer_findings("each", self.one, because(Reason.FORBIDDEN))]
        assert [finding.level for finding in found] == [UNCHECKED, WARNING]
        assert "leases" in found[1].remedy


def test_unproven_storage_is_one_warning() -> None:
    reports = [report("v1.36.3+k3s1"), report("v1.36.3+k3s1"), report(SILENT)]
    assert only(storage_findings(reports, "auto", StorageKind.UNKNOWN)).level is WARNING
    assert only(storage_findings(reports, "auto", StorageKind.SEQUENCE)).level is GOOD
    assert [*storage_findings(reports, "etcd", StorageKind.UNKNOWN)] == []
    assert [*storage_findings([report("v1.36.3")], "auto", StorageKind.UNKNOWN)] == []


def test_kine_is_a_warning_unless_it_is_on_sqlite() -> None:
    reports = [report("v1.36.3+k3s1")]
    assert "by a poll" in only(storage_findings(reports, "auto", StorageKind.KINE)).text
    assert [*storage_findings(reports, "kine-sqlite", StorageKind.KINE)] == []


def test_unknown_storage_is_unchecked() -> None:
    findings = [*storage_findings([report("v1.36.3")], "auto", because(Reason.FORBIDDEN))]
    assert [one.level for one in findings] == [UNCHECKED]


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
