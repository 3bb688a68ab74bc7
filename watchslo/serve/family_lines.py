"""The sample lines of a metric family: the text of lines is made once for all owners, and values are put into it.

The lines are those of prometheus_client, whose encoder makes all of them from nothing: that takes ten times as long.
Prometheus' text format and OpenMetrics have the same lines.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from prometheus_client.utils import floatToGoString

from watchslo.serve.document import pieces_of
from watchslo.serve.metrics import Family, MetricView, Type
from watchslo.serve.metrics.views import Found
from watchslo.snapshot import Snapshot

EXPONENT_FROM = 1e6  # Go writes larger numbers with an exponent, Python does not
MOST_NAMES = 4096  # of owners, whose labels are the same in many families


_Shape = tuple[Collection[Any], Sequence[tuple[float, ...]]]
"""What the lines of an owner depend on, except for its name: the keys of its values, and the edges of histograms."""


class FamilyLines:
    """Writes the lines of one family, for each owner: a watch, an apiserver, a domain, or the daemon itself.

    It keeps a template for each shape in the newest snapshot, which most owners share, and the lines until there are
    other owners. A line of a template has placeholders for the labels of the owner and for the value.
    """

    def __init__(self, family: Family, view: MetricView) -> None:
        self._name = family.name
        self._is_histogram = family.type is Type.HISTOGRAM
        self._view = view
        self._labels = tuple(label.name for label in view.labels)
        self._templates: dict[_Shape, str] = {}
        self._owners: Sequence[object] | None = None
        self._pieces: tuple[bytes, ...] = ()

    def pieces(self, snapshot: Snapshot) -> tuple[bytes, ...]:
        """Return the lines; they are made once for the watches of an evaluation, which later snapshots share."""
        owners = self._view.owners(snapshot)
        if owners is not self._owners:
            before, self._templates = self._templates, {}
            self._pieces = tuple(pieces_of(self._texts(owners, before)))
            self._owners = owners
        return self._pieces

    def _texts(self, owners: Sequence[Any], before: Mapping[_Shape, str]) -> Iterator[str]:
        for owner in owners:
            found = self._view.read(owner)
            if found is not None:
                yield self._text(self._view.name(owner), found, before)

    def _text(self, name: tuple[str, ...], found: Found, before: Mapping[_Shape, str]) -> str:
        keys, values = keys_and_values(found)
        edges: Sequence[tuple[float, ...]] = ()
        if self._is_histogram:
            edges = tuple(reading.edges for reading in values)
            values = [number for reading in values for number in (*reading.counts, reading.total, reading.sum)]
        shape = keys, edges
        template = self._templates.get(shape)
        if template is None:
            template = self._templates[shape] = before.get(shape) or self._template(len(name), keys, edges)
        labels = _sorted_labels(self._labels[: len(name)], name)
        texts: list[str] = []
        for value in values:
            texts += labels
            texts.append(repr(float(value)) if 0 <= value < EXPONENT_FROM else _go_text(value))
        return template % tuple(texts)

    def _template(self, named: int, keys: Collection[Any], edges: Sequence[tuple[float, ...]]) -> str:
        """Return the lines of a shape; the first `named` labels are those of the owner."""
        write = self._histogram_lines if self._is_histogram else self._lines
        owner = dict.fromkeys(self._labels[:named], "%s")
        return "".join(write([owner | self._own_labels(named, key) for key in keys], edges))

    def _own_labels(self, named: int, key: str | tuple[str, ...]) -> dict[str, str]:
        values = (key,) if isinstance(key, str) else key
        return {
            label: _escaped(value).replace("%", "%%") for label, value in zip(self._labels[named:], values, strict=True)
        }

    def _lines(self, labelled: Iterable[Mapping[str, str]], _: object) -> Iterator[str]:
        for labels in labelled:
            yield _line(self._name, labels)

    def _histogram_lines(
        self, labelled: Iterable[Mapping[str, str]], edges: Sequence[tuple[float, ...]]
    ) -> Iterator[str]:
        for labels, upper in zip(labelled, edges, strict=True):
            for edge in (*(str(float(edge)) for edge in upper), "+Inf"):
                yield _line(f"{self._name}_bucket", {**labels, "le": edge})
            yield _line(f"{self._name}_count", labels)
            yield _line(f"{self._name}_sum", labels)


def keys_and_values(found: Found) -> tuple[Collection[Any], Collection[Any]]:
    """Return the values with the keys of their labels; a single value has no labels of its own."""
    return (tuple(found), found.values()) if isinstance(found, Mapping) else (((),), (found,))


def _line(name: str, labels: Mapping[str, str]) -> str:
    """Return a line with `%s` for its value; the values of labels are escaped."""
    text = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{text}}} %s\n" if text else f"{name} %s\n"


def _go_text(value: float) -> str:
    """Return a value as Go writes it, whatever it is."""
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


@lru_cache(MOST_NAMES)
def _sorted_labels(labels: tuple[str, ...], name: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of the labels of an owner in the order of a line."""
    return tuple([_escaped(value) for _, value in sorted(zip(labels, name, strict=True))])


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
