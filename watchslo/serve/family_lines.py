"""The sample lines of a metric family: the text of labels is made once for each owner, and values are put into it.

The lines are those of prometheus_client, whose encoder makes all of them from nothing: that takes ten times as long.
Prometheus' text format and OpenMetrics have the same lines.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client.utils import floatToGoString

from watchslo.serve.document import pieces_of
from watchslo.serve.metrics import Family, MetricView, Type
from watchslo.serve.metrics.views import Found
from watchslo.snapshot import Snapshot

EXPONENT_FROM = 1e6  # Go writes larger numbers with an exponent, Python does not


class _Template(NamedTuple):
    """The lines of one owner with a placeholder for each value; `shape` is what they depend on, except for the owner.

    The shape has the keys of the values, and the edges of histograms.
    """

    shape: tuple[Collection[Any], Sequence[tuple[float, ...]]]
    text: str


class FamilyLines:
    """Writes the lines of one family, for each owner: a watch, an apiserver, a domain, or the daemon itself.

    It keeps a template for each owner in the newest snapshot, and the lines until there are other owners.
    """

    def __init__(self, family: Family, view: MetricView) -> None:
        self._name = family.name
        self._is_histogram = family.type is Type.HISTOGRAM
        self._view = view
        self._labels = tuple(label.name for label in view.labels)
        self._templates: dict[tuple[str, ...], _Template] = {}
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

    def _texts(self, owners: Sequence[Any], before: Mapping[tuple[str, ...], _Template]) -> Iterator[str]:
        for owner in owners:
            found = self._view.read(owner)
            if found is not None:
                name = self._view.name(owner)
                yield self._text(name, found, before.get(name))

    def _text(self, name: tuple[str, ...], found: Found, template: _Template | None) -> str:
        keys, values = _keys_and_values(found)
        edges: Sequence[tuple[float, ...]] = ()
        if self._is_histogram:
            edges = tuple(reading.edges for reading in values)
            values = [number for reading in values for number in (*reading.counts, reading.total, reading.sum)]
        if template is None or template.shape != (keys, edges):
            lines = self._histogram_lines(name, keys, edges) if self._is_histogram else self._lines(name, keys)
            template = _Template((keys, edges), "".join(lines))
        self._templates[name] = template
        return template.text % tuple(
            [repr(float(value)) if 0 <= value < EXPONENT_FROM else _go_text(value) for value in values]
        )

    def _lines(self, name: tuple[str, ...], keys: Collection[Any]) -> Iterator[str]:
        for key in keys:
            yield _line(self._name, self._labelled(name, key))

    def _histogram_lines(
        self, name: tuple[str, ...], keys: Collection[Any], edges: Sequence[tuple[float, ...]]
    ) -> Iterator[str]:
        for key, upper in zip(keys, edges, strict=True):
            labels = self._labelled(name, key)
            for edge in (*(str(float(edge)) for edge in upper), "+Inf"):
                yield _line(f"{self._name}_bucket", {**labels, "le": edge})
            yield _line(f"{self._name}_count", labels)
            yield _line(f"{self._name}_sum", labels)

    def _labelled(self, name: tuple[str, ...], key: str | tuple[str, ...]) -> dict[str, str]:
        values = (*name, key) if isinstance(key, str) else (*name, *key)
        return dict(zip(self._labels, values, strict=True))


def _keys_and_values(found: Found) -> tuple[Collection[Any], Collection[Any]]:
    """Return the values with the keys of their labels; a single value has no labels of its own."""
    return (tuple(found), found.values()) if isinstance(found, Mapping) else (((),), (found,))


def _line(name: str, labels: Mapping[str, str]) -> str:
    """Return a line with `%s` for its value."""
    text = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels.items()))
    return f"{name}{{{text}}} %s\n" if text else f"{name} %s\n"


def _go_text(value: float) -> str:
    """Return a value as Go writes it, whatever it is."""
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


def _escaped(value: str) -> str:
    """Escape a label value, and its percent signs for the placeholders."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"").replace("%", "%%")
