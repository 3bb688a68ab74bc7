"""One line of a page of metrics in the text format of Prometheus: its name, its labels and its value. Pure."""

import re

LARGEST = float(2**53)  # larger counts are not exact
LABEL = re.compile(rb'(\w+)="((?:[^"\\]|\\.)*)"')


def series_name(line: bytes) -> bytes:
    """Return the name of the series in a line; of a comment, something that begins with `#`."""
    labels = line.find(b"{")
    return line.partition(b" ")[0] if labels < 0 else line[:labels]


def series_value(text: bytes) -> float | None:
    """Return a count or a duration, or None if the text is none that is possible; a timestamp may follow."""
    try:
        value = float(text.split(None, 1)[0])
    except (ValueError, IndexError):
        return None
    return value if 0.0 <= value <= LARGEST else None
