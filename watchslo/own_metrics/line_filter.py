"""Keeps the few lines of a page that are wanted, while the page arrives in pieces. Pure.

The page of a large cluster has many megabytes, nearly all of families that are not read here. The text format has the
lines of a family together, so a piece that begins and ends within one unwanted family is dropped without a look at its
lines.
"""

from collections.abc import Collection

from watchslo.own_metrics.families import LINES
from watchslo.own_metrics.series import series_name

MOST_KEPT_BYTES = 4 * 2**20
LONGEST_LINE_BYTES = 16 * 2**10
_SUFFIXES = (b"_bucket", b"_count", b"_sum")


class LineFilter:
    """Takes in a page piece by piece; `lines` are those of the `wanted` series.

    `size` is the number of bytes so far. `is_over` says that more than `MOST_KEPT_BYTES` were wanted; the rest is left
    out.
    """

    def __init__(self, wanted: Collection[bytes] = LINES) -> None:
        self.lines: list[bytes] = []
        self.size = 0
        self.is_over = False
        self._wanted = wanted
        self._families = frozenset(map(_family, wanted))
        self._kept = 0
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Take in the next piece of the page."""
        self.size += len(piece)
        whole, newline, rest = piece.rpartition(b"\n")
        if not newline:
            self._rest = (self._rest + piece)[:LONGEST_LINE_BYTES]  # such a line is none of an apiserver's
            return
        whole, self._rest = self._rest + whole, rest[:LONGEST_LINE_BYTES]
        if not self._is_unwanted(whole):
            self._keep(whole.split(b"\n"))

    def finish(self) -> None:
        """Take in the last line, if the page ends without a newline."""
        self._keep([self._rest])
        self._rest = b""

    def _keep(self, lines: list[bytes]) -> None:
        for line in lines:
            if series_name(line) not in self._wanted:
                continue
            self._kept += len(line)
            if self._kept > MOST_KEPT_BYTES:
                self.is_over = True
                return
            self.lines.append(line)

    def _is_unwanted(self, whole: bytes) -> bool:
        """Return whether the first and the last line are of one family that is not wanted."""
        family = _family(series_name(whole.partition(b"\n")[0]))
        if family in self._families or family.startswith(b"#"):  # a comment does not show where its family ends
            return False
        return family == _family(series_name(whole.rpartition(b"\n")[2]))


def _family(name: bytes) -> bytes:
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
