"""The forms in which an apiserver sends objects, and how to ask for each."""

from enum import StrEnum

_PARTIAL = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_PLAIN = "application/json"


class Representation(StrEnum):
    """From the smallest to the largest; a server that does not know one answers 406."""

    TABLE = "table"
    METADATA = "metadata"
    PLAIN = "plain"

    @property
    def simpler(self) -> "Representation":
        """What to fall back to."""
        return Representation.METADATA if self is Representation.TABLE else Representation.PLAIN

    @property
    def query(self) -> dict[str, str]:
        """A Table's rows would carry the metadata of their objects, if not told otherwise."""
        return {"includeObject": "None"} if self is Representation.TABLE else {}

    @property
    def accept_watch(self) -> str:
        return {"table": _TABLE, "metadata": _PARTIAL.format(list=""), "plain": _PLAIN}[self]

    @property
    def accept_list(self) -> str:
        return {"table": _TABLE, "metadata": _PARTIAL.format(list="List"), "plain": _PLAIN}[self]
