"""How many apiservers an address stands for."""

from collections import defaultdict

import msgspec

from watchslo.kube.client import Client
from watchslo.watch.failure import Failure

SLICES = (
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dkubernetes"
)


class _Endpoint(msgspec.Struct):
    addresses: list[str]


class _Slice(msgspec.Struct, rename="camel"):
    address_type: str
    endpoints: list[_Endpoint] | None = None


class _Slices(msgspec.Struct):
    items: list[_Slice]


async def count_apiservers(client: Client) -> int | None:
    """The apiservers behind the service `kubernetes`, as they announce themselves; None where that cannot be read."""
    body = await client.document(SLICES)
    if isinstance(body, Failure):
        return None
    try:
        slices = msgspec.json.decode(body, type=_Slices).items
    except msgspec.DecodeError:
        return None
    addresses: dict[str, set[str]] = defaultdict(set)
    for part in slices:
        for endpoint in part.endpoints or ():
            addresses[part.address_type].update(endpoint.addresses)
    return max(map(len, addresses.values()), default=None)
