"""Decodes the bodies of lists, in every representation."""

from dataclasses import dataclass

import msgspec

from watchslo.kube.decoding import decode_exactly
from watchslo.kube.representation import Representation
from watchslo.watch.failure import Failure, Reason, because
from watchslo.watch.messages import ListedObjects
from watchslo.watch.protobuf import decode_protobuf_list


@dataclass(frozen=True, slots=True)
class ListBody:
    """What is needed of a list; the fields are as the apiserver writes them, and None if it writes none.

    `objects` has uids and revisions if they were requested. `sharded` says that the list repeats a shard selector.
    """

    revision: str | None
    continue_token: str | None
    remaining: int | None
    items: int
    objects: ListedObjects | None = None
    sharded: bool = False


def decode_list(body: bytearray, representation: Representation, *, with_objects: bool) -> ListBody | Failure:
    """Return the list, or the failure `GARBAGE`. A Table does not identify its objects.

    A list with an odd object is garbage as a whole: without that object, an inventory would miss a change.
    """
    if representation is Representation.PROTOBUF:
        return _decode_protobuf(body, with_objects=with_objects)
    is_identified = with_objects and representation is not Representation.TABLE
    form: type[_ObjectListBody | _AnyListBody] = _ObjectListBody if is_identified else _AnyListBody
    listed = decode_exactly(body, form)
    if isinstance(listed, Failure):
        return listed
    metadata = listed.metadata
    return ListBody(
        metadata.resource_version,
        metadata.continue_token,
        metadata.remaining_item_count,
        len(listed),
        listed.objects,
        sharded=metadata.shard_info is not None,
    )


def _decode_protobuf(body: bytearray, *, with_objects: bool) -> ListBody | Failure:
    listed = decode_protobuf_list(body, with_objects=with_objects)
    if listed is None:
        return because(Reason.GARBAGE)
    objects = ListedObjects(listed.uids, listed.revisions) if with_objects else None
    return ListBody(listed.revision, listed.continue_token, listed.remaining, listed.items, objects)


class _ShardInfo(msgspec.Struct):
    """The shard selector that a list was limited by."""

    selector: str | None = None


class _ListBodyMetadata(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_token: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None
    shard_info: _ShardInfo | None = None


class _AnyListBody(msgspec.Struct):
    """Any list: of objects, of their metadata, or a Table. Its objects are not decoded."""

    metadata: _ListBodyMetadata
    items: list[msgspec.Raw] | None = None
    rows: list[msgspec.Raw] | None = None

    def __len__(self) -> int:
        return len(self.rows or self.items or ())

    @property
    def objects(self) -> None:
        """None, because the objects are not decoded."""


class _ListedMetadata(msgspec.Struct, gc=False, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _ListedObject(msgspec.Struct, gc=False):
    metadata: _ListedMetadata


class _ObjectListBody(msgspec.Struct):
    """A list of objects or of their metadata, with the fields that an inventory needs."""

    metadata: _ListBodyMetadata
    items: list[_ListedObject] | None = None

    def __len__(self) -> int:
        return len(self.items or ())

    @property
    def objects(self) -> ListedObjects:
        """The objects as columns."""
        found = [item.metadata for item in self.items or ()]
        return ListedObjects([metadata.uid for metadata in found], [metadata.resource_version for metadata in found])
