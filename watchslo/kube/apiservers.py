"""Find the apiservers of a cluster: their addresses, and how many hold a lease."""

import asyncio
import contextlib
import ipaddress
import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import msgspec

from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.decoding import decode_answer
from watchslo.kube.representation import Representation
from watchslo.kube.urls import is_host
from watchslo.model import Resource
from watchslo.watch.decode import parse_revision
from watchslo.watch.failure import Failure
from watchslo.watch.messages import WatchRequest

TLS_NAME = "kubernetes.default.svc"
"""A name that the certificate of every apiserver is valid for, because pods reach the service by it."""

_SERVICE = Selectors(labels="kubernetes.io/service-name=kubernetes")
_ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", namespaced=True)
SLICES = f"{_ENDPOINT_SLICES.path('default')}?labelSelector=kubernetes.io/service-name%3Dkubernetes"
LEASES = (
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    "?labelSelector=apiserver.kubernetes.io/identity%3Dkube-apiserver"
)

MOST_ADDRESSES = 32  # more than control planes have: each of them is asked, and takes 40 KiB
SETTLE_SECONDS = 1.0  # the replacement of an apiserver shows as two changes: a removal and an addition
LEASE_SECONDS = 60.0  # an apiserver renews its lease every 10 s; the lease of a removed one is deleted after an hour
LAST_PORT = 65535
_FAMILIES = ("IPv4", "IPv6", "FQDN")  # the first family with an address is used: the others are the same apiservers


class _Conditions(msgspec.Struct):
    ready: bool | None = None


class _Endpoint(msgspec.Struct):
    addresses: list[str]
    conditions: _Conditions | None = None


class _Port(msgspec.Struct):
    name: str | None = None
    port: int | None = None


class _Slice(msgspec.Struct, rename="camel"):
    address_type: str
    endpoints: list[_Endpoint] | None = None
    ports: list[_Port] | None = None


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str | None = None


class _Slices(msgspec.Struct):
    items: list[_Slice]
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


class _LeaseSpec(msgspec.Struct, rename="camel"):
    renew_time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Lease(msgspec.Struct):
    spec: _LeaseSpec


class _Leases(msgspec.Struct):
    items: list[_Lease]


_FormT = TypeVar("_FormT", _Slices, _Leases)


async def read_addresses(client: Client) -> tuple[str, ...] | Failure:
    """Return the sorted URLs of all apiservers behind the service `kubernetes`; empty without EndpointSlices."""
    slices = await _read(client, SLICES, _Slices)
    return slices if isinstance(slices, Failure) else addresses(slices.items)


async def await_change(client: Client, seconds: float, known: tuple[str, ...]) -> Failure | None:
    """Wait until the addresses may differ from `known`, for at least one second and at most `seconds`.

    The addresses may also be unchanged, so read them again in any case. If the watch was refused, this waits for the
    whole time and returns the failure.
    """
    refused = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            changed = await _await_event(client, math.ceil(seconds), known)
            if changed is not True:
                refused = changed or None
                await asyncio.Event().wait()
            await asyncio.sleep(SETTLE_SECONDS)
    return refused


async def count_apiservers(client: Client) -> int | Failure | None:
    """Return the number of apiservers that renew their leases, or None if there are no leases.

    There may be more: apiservers on hosts of the same name share a lease (kubernetes/pkg/controlplane, KEP-1965).
    """
    leases = await _read(client, LEASES, _Leases)
    if isinstance(leases, Failure):
        return leases
    return alive([lease.spec.renew_time for lease in leases.items if lease.spec.renew_time])


def number_of_apiservers(announced: int, leases: int) -> int | None:
    """Return how many apiservers there are, by their announced addresses and live leases; None if that is not known.

    Without a lease, a single address may be that of a load balancer.
    """
    return max(announced, leases) if leases or announced > 1 else None


def addresses(slices: Iterable[_Slice]) -> tuple[str, ...]:
    """Return the sorted URLs of the ready endpoints in these EndpointSlices; each slice has its own ports.

    Those beyond `MOST_ADDRESSES` are left out, and those that no server can have.
    """
    found: dict[str, set[str]] = {family: set() for family in _FAMILIES}
    for part in slices:
        port = _port(part)
        if port is not None:
            found.setdefault(part.address_type, set()).update(
                f"https://{_host(address)}:{port}" for address in _ready(part) if is_host(_host(address))
            )
    return tuple(sorted(next(filter(None, (found[family] for family in _FAMILIES)), ())))[:MOST_ADDRESSES]


def socket_of(url: str) -> tuple[str, int]:
    """Return the host and port of a URL in the one form in which addresses can be compared."""
    where = urlsplit(url)
    host = where.hostname or ""
    with contextlib.suppress(ValueError):  # it is a name
        host = str(ipaddress.ip_address(host))
    return host, where.port or (80 if where.scheme == "http" else 443)


def alive(renewed: list[datetime]) -> int | None:
    """Return how many leases were renewed within `LEASE_SECONDS` of the newest one."""
    if not renewed:
        return None
    newest, most = max(renewed), timedelta(seconds=LEASE_SECONDS)
    return sum(newest - time <= most for time in renewed)  # `newest - most` could be before the year 1


def _port(part: _Slice) -> int | None:
    """Return the port named https, else the first port; None without one that a server can have."""
    named = [port.port for port in part.ports or () if port.name == "https"]
    first = next(iter([*named, *(port.port for port in part.ports or ())]), None)
    return first if first is not None and 0 < first <= LAST_PORT else None


def _ready(part: _Slice) -> Iterable[str]:
    for endpoint in part.endpoints or ():
        # Unknown counts as ready: discovery.k8s.io/v1, EndpointConditions.
        if endpoint.conditions is None or endpoint.conditions.ready is not False:
            yield from endpoint.addresses


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def _await_event(client: Client, seconds: int, known: tuple[str, ...]) -> bool | Failure:
    """Return True if the addresses differ from `known`, or as soon as an EndpointSlice changes within `seconds`.

    Returns the failure if the watch is refused.
    """
    slices = await _read(client, SLICES, _Slices)
    if isinstance(slices, Failure):
        return False
    if addresses(slices.items) != known:
        return True
    revision = parse_revision(slices.metadata.resource_version)
    if revision is None:
        return False
    request = WatchRequest(revision, seconds, bookmarks=False)
    plain = Representation.PLAIN
    async with client.watch(_ENDPOINT_SLICES, "default", _SERVICE, request, plain, kind="discovery") as stream:
        if isinstance(stream, Failure):
            return stream
        answer = await stream.read()
        return not isinstance(answer, Failure) and not answer[1].startswith(b'{"type":"ERROR"')


async def _read(client: Client, path: str, form: type[_FormT]) -> _FormT | Failure:
    body = await client.document(path)
    return body if isinstance(body, Failure) else decode_answer(body, form)
