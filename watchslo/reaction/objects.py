"""What trackers of reactions look at in whole objects.

`spec`, `status` and `endpoints` stay encoded until a tracker needs them: custom resources may have anything there, and
an odd value must not cost the event.
"""

from typing import TypeVar

import msgspec

from watchslo.errors import UNDECODABLE
from watchslo.watch.decode import (
    Added,
    Bookmark,
    ChangedObject,
    Deleted,
    Error,
    FrameDecoder,
    Modified,
    ObjectMetadata,
)

T = TypeVar("T")

ABSENT = msgspec.Raw()


class ReactingMetadata(ObjectMetadata, frozen=True, gc=False, rename="camel"):
    """The metadata of an object with its generation, and whether its deletion was asked for."""

    generation: int | None = None
    deletion_timestamp: str | None = None


class ReactingObject(ChangedObject, frozen=True, gc=False):
    """A whole object, of which only the metadata is decoded."""

    metadata: ReactingMetadata
    spec: msgspec.Raw = ABSENT
    status: msgspec.Raw = ABSENT
    endpoints: msgspec.Raw = ABSENT


class ReactingAdded(Added, frozen=True, gc=False, tag="ADDED"):
    """The object was created."""

    object: ReactingObject


class ReactingModified(Modified, frozen=True, gc=False, tag="MODIFIED"):
    """The object changed."""

    object: ReactingObject


class ReactingDeleted(Deleted, frozen=True, gc=False, tag="DELETED"):
    """The object was deleted; it is shown as it was before."""

    object: ReactingObject


ReactingChange = ReactingAdded | ReactingModified | ReactingDeleted

REACTING: FrameDecoder = msgspec.json.Decoder(ReactingChange | Bookmark | Error)
"""Decodes the events of whole objects."""


class ObservingStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A status whose controller says which generation it has acted on."""

    observed_generation: int | None = None


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """What keeps a pod from being scheduled until someone removes it."""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a pod runs, if that is decided."""

    node_name: str | None = None
    scheduling_gates: list[SchedulingGate] | None = None


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition of a pod."""

    type: str
    status: str
    reason: str | None = None


class WaitingContainer(msgspec.Struct, frozen=True, gc=False):
    """Why a container does not run yet; the reason is not needed."""


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """The state of a container: `waiting` is None once it has been started."""

    waiting: WaitingContainer | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of one container."""

    state: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the scheduler and the kubelet say of a pod; the kubelet sets `start_time` in its first status."""

    phase: str | None = None
    start_time: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class EndpointConditions(msgspec.Struct, frozen=True, gc=False):
    """Whether an endpoint is ready; None means yes (discovery.k8s.io/v1, EndpointConditions)."""

    ready: bool | None = None


class EndpointTarget(msgspec.Struct, frozen=True, gc=False):
    """The object behind an endpoint."""

    uid: str | None = None


class SliceEndpoint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One endpoint of a slice."""

    conditions: EndpointConditions = EndpointConditions()
    target_ref: EndpointTarget | None = None


POD_SPEC = msgspec.json.Decoder(PodSpec)
POD_STATUS = msgspec.json.Decoder(PodStatus)
OBSERVING_STATUS = msgspec.json.Decoder(ObservingStatus)
ENDPOINTS = msgspec.json.Decoder(list[SliceEndpoint] | None)


def part_of(raw: msgspec.Raw, decoder: "msgspec.json.Decoder[T]") -> T | None:
    """Return a decoded part of an object; None if it is absent, or not as Kubernetes defines it."""
    if not raw:
        return None
    try:
        return decoder.decode(raw)
    except UNDECODABLE:
        return None
