"""Checks the addresses of the apiservers: that each answers, and how many apiservers they lead to."""

import asyncio
import errno
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from watchslo.app.doctor.findings import DeploymentFinding, good, problem, unchecked, warning
from watchslo.clock.storage_kind import StorageSetting, storage_of, unproven_storage
from watchslo.kube.apiservers import number_of_apiservers
from watchslo.snapshot import ApiserverRole, StorageKind
from watchslo.timeline.format import counted, some_of
from watchslo.watch.failure import Failure, Reason

SUBJECT = "addresses"
CONNECT_SECONDS = 3.0  # a SYN that is lost by chance is repeated after one second
ANSWERING = frozenset({Reason.FORBIDDEN, Reason.NOT_FOUND})  # an apiserver that hides its version answers all the same


class Reach(Enum):
    """The result of opening a TCP connection."""

    OPEN = "open"
    REFUSED = "refused"
    DROPPED = "dropped"
    NO_ROUTE = "no route"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class AddressResult:
    """One apiserver: its version or why it gave none, and how TCP reaches it, which is None if that was not tried."""

    name: str
    url: str
    role: ApiserverRole
    answer: str | Failure
    reach: Reach | None = None

    @property
    def answers(self) -> bool:
        return isinstance(self.answer, str) or self.answer.reason in ANSWERING


def address_findings(results: Sequence[AddressResult]) -> Iterator[DeploymentFinding]:
    """Yield a finding for each address that does not answer, and one for all that do."""
    for result in results:
        if not result.answers:
            yield _unanswered(result)
    answering = [result for result in results if result.answers]
    if answering:
        versions = sorted({result.answer for result in answering if isinstance(result.answer, str)})
        named = f" ({some_of(versions)})" if versions else ""
        names = some_of([result.name for result in answering])
        yield good(SUBJECT, f"{counted(len(answering), 'apiserver')} can be asked: {names}{named}.")


def _unanswered(result: AddressResult) -> DeploymentFinding:
    assert isinstance(result.answer, Failure)
    found = warning if result.role is ApiserverRole.WITNESS else problem
    if result.reach is Reach.DROPPED:
        return found(SUBJECT, f"{result.name}: {dropped(result.url)}", allow(result.url, "Egress"))
    if result.role is ApiserverRole.WITNESS:
        remedy = "The runbook of WatchsloWitnessesUnreached says what is missing without this witness."
    else:
        remedy = "Correct `kubernetes` in the configuration, or the kubeconfig."
    return found(SUBJECT, f"{result.name}: {result.answer.message}", remedy)


_UNREACHED = {
    Reach.REFUSED: "the connection is refused.",
    Reach.NO_ROUTE: "there is no route to it.",
    Reach.UNRESOLVED: "its name does not resolve.",
}


def unreached(url: str, reach: Reach) -> str:
    """Return the sentence about an address that TCP does not reach."""
    return _UNREACHED.get(reach) or dropped(url)


def dropped(url: str) -> str:
    """Return the sentence about an address that does not answer to TCP."""
    return (
        f"a connection to port {port_of(url)} is neither accepted nor refused: a NetworkPolicy or a firewall drops it."
    )


def allow(url: str, direction: str) -> str:
    """Return the remedy for dropped packets; `direction` is Egress or Ingress."""
    side = "from the pods of watchslo" if direction == "Egress" else "to the pods of watchslo"
    return f"Allow TCP port {port_of(url)} {side} ({direction} of the NetworkPolicy), and in firewalls."


def port_of(url: str) -> int:
    """Return the port of a URL."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def peer_findings(
    wanted: str | tuple[str, ...],
    announced: tuple[str, ...] | Failure,
    leases: int | Failure | None,
    *,
    is_verified: bool = True,
) -> Iterator[DeploymentFinding]:
    """Yield whether the apiservers are several, and whether the configuration distinguishes them.

    `wanted` is `kubernetes.apiservers`; `leases` is how many apiservers renew theirs, None without leases, and
    `is_verified` whether the certificates of apiservers are verified.
    """
    subject = "apiservers"
    if isinstance(announced, Failure):
        yield unchecked(subject, f"The addresses of the apiservers cannot be read. {announced.message}")
        return
    addresses = len(announced)
    servers = number_of_apiservers(addresses, leases if isinstance(leases, int) else 0)
    if wanted == "each" and not is_verified:
        yield problem(
            subject,
            "The certificates of the apiservers are not verified, so only the service is asked: credentials are not "
            "sent to announced addresses, which may be those of other servers.",
            "Name the CA of the cluster in the kubeconfig, or the addresses of the apiservers in "
            "`kubernetes.apiservers`.",
        )
        return
    if isinstance(leases, Failure):
        yield unchecked(subject, f"The leases of the apiservers cannot be counted. {leases.message}")
    if servers is None and not addresses:
        yield unchecked(subject, "The service `kubernetes` announces no address, so their number is unknown.")
    elif servers is None:
        yield warning(
            subject,
            "One address is announced, and no lease tells whether it leads to several apiservers, so hops and creation "
            "latencies are not measured.",
            "Grant the right to list the leases in `kube-system`, which `watchslo rbac` names.",
        )
    elif servers > addresses:
        yield warning(
            subject,
            f"{counted(servers, 'apiserver')} renew leases, but {addresses} can be distinguished by addresses: the "
            "others are behind a load balancer, or one has left within the last minute.",
            "Name their own addresses in `kubernetes.apiservers`; hops are not measured through a load balancer.",
        )
    elif wanted == "service" and servers > 1:
        yield warning(
            subject,
            f"One address leads to any of {counted(servers, 'apiserver')}, so a late one is not found by name, and "
            "hops are not measured.",
            "Write `kubernetes: {apiservers: each}` if their addresses can be reached from here.",
        )
    else:
        yield good(subject, f"{counted(servers, 'apiserver')} can be distinguished.")


def storage_findings(
    results: Iterable[AddressResult], stated: StorageSetting, revealed: StorageKind | Failure
) -> Iterator[DeploymentFinding]:
    """Yield what is known of the storage: by what the configuration has stated, or else what an apiserver revealed."""
    subject = "storage"
    if isinstance(revealed, Failure):
        yield unchecked(subject, f"Whether it is etcd or kine cannot be found out. {revealed.message}")
        revealed = StorageKind.UNKNOWN
    versions = [result.answer for result in results if isinstance(result.answer, str)]
    reasons = {unproven_storage(version, stated, revealed) for version in versions} - {None}
    for reason in sorted(map(str, reasons)):
        yield warning(subject, f"Bounds are not proven: {reason}.", "See `clock.storage` in the configuration.")
    if storage_of(stated, revealed, None).commit_spread:
        yield warning(
            subject,
            "The storage is kine: with PostgreSQL, the order of commits is known to 0.1 s, and several servers find "
            "each other's changes by a poll.",
            "See docs/howto/k3s.md; with SQLite, write `clock: {storage: kine-sqlite}`.",
        )
    elif revealed is StorageKind.SEQUENCE:
        yield good(subject, "The storage counts its revisions as etcd does.")


async def tcp_reach(url: str, seconds: float = CONNECT_SECONDS) -> Reach:
    """Open and close a connection to the address of a URL."""
    host = urlsplit(url).hostname or ""
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port_of(url))
    except TimeoutError:
        return Reach.DROPPED
    except socket.gaierror:
        return Reach.UNRESOLVED
    except OSError as error:
        return _reach_of(error)
    writer.transport.abort()
    return Reach.OPEN


def _reach_of(error: OSError) -> Reach:
    match error.errno:
        case errno.ECONNREFUSED:
            return Reach.REFUSED
        case errno.ETIMEDOUT:
            return Reach.DROPPED
        case _:
            return Reach.NO_ROUTE
