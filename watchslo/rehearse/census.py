"""What is there to rehearse: how many objects and how large, by one small list."""

from dataclasses import dataclass

import msgspec

from watchslo.kube.client import Client
from watchslo.kube.decoding import decode_answer
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.watch.failure import Failure

SAMPLED = 20  # objects, the first by name, whose mean size stands for that of all


class _CensusMetadata(msgspec.Struct, rename="camel"):
    remaining_item_count: int | None = None


class _CensusBody(msgspec.Struct):
    metadata: _CensusMetadata
    items: list[msgspec.Raw] | None = None  # Go writes an empty one as null


@dataclass(frozen=True, slots=True)
class Census:
    """The number of objects, and the mean size in bytes of the first ones as JSON; 0 if it was not asked for."""

    objects: int
    mean: float = 0.0

    @property
    def size(self) -> int:
        """The estimated bytes of a list of all objects, which are whole and plain JSON."""
        return round(self.objects * self.mean)


async def take_census(client: Client, resource: Resource, namespace: str | None, *, sizes: bool) -> Census | Failure:
    """Return the number of objects by a short list: without selectors the apiserver says how many remain.

    With `sizes`, it is a list of some whole objects; otherwise of the metadata of one.
    """
    limit, form = (SAMPLED, Representation.PLAIN) if sizes else (1, Representation.METADATA)
    body = await client.document(f"{resource.path(namespace)}?limit={limit}", form.accept_list)
    if isinstance(body, Failure):
        return body
    listed = decode_answer(body, _CensusBody)
    if isinstance(listed, Failure):
        return listed
    found = len(listed.items or ())
    mean = len(body) / found if sizes and found else 0.0
    return Census(found + (listed.metadata.remaining_item_count or 0), mean)
