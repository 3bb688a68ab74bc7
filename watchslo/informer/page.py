"""What informers say of themselves on a page of metrics: the revision of each store, and how many items wait for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from watchslo.own_metrics.series import LABEL, series_name, series_value

STORE = b"informer_store_resource_version"
QUEUE = b"informer_queued_items"
INFORMER_SERIES = frozenset({STORE, QUEUE})
"""The names of the lines that are read; client-go 0.37 and newer export them (KEP-5647)."""

MOST_INFORMERS = 200  # of a client: kube-controller-manager 1.37 has 59
LONGEST_LABEL = 253  # bytes, as the name of a resource
_IDENTITY = (b"name", b"group", b"version", b"resource")


class InformerKey(NamedTuple):
    """An informer, by the labels of its series; `resource` is a naive plural such as `ingressclasss`."""

    name: str
    group: str
    version: str
    resource: str


@dataclass(frozen=True, slots=True)
class InformerPage:
    """The informers on a page that was asked for at `began` and complete at `ended`, in monotonic seconds.

    `stores` has the last 15 digits of the revision of each store, `queued` the number of items that wait. `garbled`
    lines could not be read, and `left_out` were too many.
    """

    began: float
    ended: float
    stores: Mapping[InformerKey, int]
    queued: Mapping[InformerKey, int]
    garbled: int = 0
    left_out: int = 0


def parse_informers(lines: Iterable[bytes], began: float, ended: float) -> InformerPage:
    """Return the informers in these lines of `INFORMER_SERIES`; a line that cannot be read costs no other."""
    found: dict[bytes, dict[InformerKey, int]] = {name: {} for name in INFORMER_SERIES}
    garbled = left_out = 0
    for line in lines:
        name = series_name(line)
        end = line.rfind(b"}") + 1 or len(name)
        key, value = _key(line[len(name) : end]), series_value(line[end:])
        if key is None or value is None or not value.is_integer():
            garbled += 1
        elif len(found[name]) == MOST_INFORMERS:
            left_out += 1
        else:
            found[name][key] = int(value)
    return InformerPage(began, ended, found[STORE], found[QUEUE], garbled, left_out)


def _key(text: bytes) -> InformerKey | None:
    """Return the informer that labels name; None if they name no resource."""
    labels = dict(LABEL.findall(text))
    values = [labels.get(name, b"") for name in _IDENTITY]
    if not values[-1] or any(len(value) > LONGEST_LABEL or not value.isascii() for value in values):
        return None
    return InformerKey(*(value.decode() for value in values))
