"""The section `shard`: which share of the watches belongs to this instance."""

import hashlib
from typing import Self

from pydantic import Field, model_validator

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Ordinal

_MOST_SHARDS = 1_000  # each shard computes a hash for every watch and every shard


class ShardConfig(ConfigSection):
    """The share of the watches that this instance runs: number `index`, from 0, of `count`."""

    index: Ordinal = Field(default=0, ge=0)
    count: int = Field(default=1, ge=1, le=_MOST_SHARDS)

    @model_validator(mode="after")
    def _check_index(self) -> Self:
        if len(self.model_fields_set) == 1:  # one without the other would leave watches unassigned
            raise ValueError("`index` and `count` need each other; write for example index: ${POD_NAME}, count: 3")
        if self.index >= self.count:
            raise ValueError(
                f"`index` is {self.index} and `count` is {self.count}, but instances are numbered from 0; "
                f"write an index up to {self.count - 1}, or a count of {self.index + 1} for all instances"
            )
        return self

    def has(self, label: str, part: int = 0) -> bool:
        """Return True if this part, from 0, of the watch with this label belongs to this instance.

        All instances agree on the result, in any version. Each share has a hash for the label, and the highest hash
        wins (rendezvous hashing). So an additional instance takes an equal part from each other one, and no other
        watches move. Further parts of a divided watch go to the next shares in turn, so that all have equally many.
        """
        first = max(range(self.count), key=lambda index: _rank(index, label))
        return self.index == (first + part) % self.count


def _rank(index: int, label: str) -> bytes:
    return hashlib.sha256(f"{index}/{label}".encode()).digest()
