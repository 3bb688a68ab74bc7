"""The representations in which an apiserver sends objects, how to request each, and how to read its watches."""

from enum import StrEnum

from watchslo.watch.decode import FRAME, FrameDecoder, FrameReader
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES
from watchslo.watch.protobuf import ProtobufFrameReader

_PARTIAL = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


class Representation(StrEnum):
    """A representation, from the smallest to the largest; a server that does not know it answers 406.

    Custom resources have no protobuf, which other resources have instead of plain JSON.
    """

    TABLE = "table"
    METADATA = "metadata"
    PROTOBUF = "protobuf"
    PLAIN = "plain"

    @property
    def simpler(self) -> "Representation":
        """The representation to fall back to."""
        return Representation.METADATA if self is Representation.TABLE else Representation.PLAIN

    @property
    def query(self) -> dict[str, str]:
        """The query parameters; by default, the rows of a Table would contain the metadata of their objects."""
        return {"includeObject": "None"} if self is Representation.TABLE else {}

    @property
    def accept_watch(self) -> str:
        """What a watch accepts; client-go names no `stream=watch` either."""
        return {"table": _TABLE, "metadata": _PARTIAL.format(list=""), "protobuf": PROTOBUF, "plain": JSON}[self]

    @property
    def accept_list(self) -> str:
        return {"table": _TABLE, "metadata": _PARTIAL.format(list="List"), "protobuf": PROTOBUF, "plain": JSON}[self]

    def frame_reader(
        self, longest: int = DEFAULT_LIMIT_BYTES, decoder: FrameDecoder = FRAME
    ) -> FrameReader | ProtobufFrameReader:
        """Return a reader of one watch, whose frames have at most `longest` bytes; `decoder` is for JSON."""
        if self is Representation.PROTOBUF:
            return ProtobufFrameReader(longest)
        return FrameReader(longest, decoder)
