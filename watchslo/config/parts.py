"""How one resource is divided: selectors of which exactly one matches each object, by the names of the parts.

The last part of a list of values, `rest`, matches every object that no value matches, also without the label or field.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

REST = "rest"
_HASHES = 2**64  # of FNV-1a, by which the apiserver divides


def divide_by_field(key: str, values: Sequence[str]) -> Mapping[str, str]:
    """Return a field selector for each value, and one for all other objects."""
    return _numbered(f"{key}={value}" for value in values) | {REST: ",".join(f"{key}!={value}" for value in values)}


def divide_by_label(key: str, values: Sequence[str]) -> Mapping[str, str]:
    """Return a label selector for each value, and one for all other objects."""
    return _numbered(f"{key}={value}" for value in values) | {REST: f"{key} notin ({','.join(values)})"}


def divide_by_hash(parts: int) -> Mapping[str, str]:
    """Return a shard selector (KEP-5866) for each of `parts` ranges of the hash of an object's uid."""
    bounds = [_HASHES * number // parts for number in range(parts + 1)]
    return _numbered(
        f"shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')" for start, end in pairwise(bounds)
    )


def _numbered(selectors: Iterable[str]) -> dict[str, str]:
    return {str(number): selector for number, selector in enumerate(selectors, 1)}
