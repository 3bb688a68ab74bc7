"""The representations in which an apiserver sends objects, and how to request each."""

from enum import StrEnum

_PARTIAL = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_PLAIN = "application/json"


class Representation(StrEnum):
    """A representation, from the smallest to the largest; a server that does not know it answers 406."""

    TABLE = "table"
    METADATA = "metadata"
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
        return {"table": _TABLE, "metadata": _PARTIAL.format(list=""), "plain": _PLAIN}[self]

    @property
    def accept_list(self) -> str:
        return {"table": _TABLE, "metadata": _PARTIAL.format(list="List"), "plain": _PLAIN}[self]
