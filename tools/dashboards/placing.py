"""Places the panels of a section in a grid of 24 columns, which Grafana and Perses share."""

from collections.abc import Iterator
from dataclasses import dataclass

from tools.dashboards.panels import Panel, Section

COLUMNS = 24
NOTE_HEIGHT = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A rectangle in the grid."""

    left: int
    top: int
    width: int
    height: int


def placed(section: Section, top: int) -> Iterator[tuple[Panel, Place]]:
    """Place panels from left to right, and start a new line where the next panel does not fit."""
    left, height = 0, 0
    for panel in section.panels:
        if left + panel.width > COLUMNS:
            left, top, height = 0, top + height, 0
        yield panel, Place(left, top, panel.width, panel.height)
        left, height = left + panel.width, max(height, panel.height)
