"""The table *Controllers*, which page, terminal and report share: its columns, its rows and their texts. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from watchslo.api.status import ReactionStatus
from watchslo.timeline.condition import P50, P99
from watchslo.timeline.figure import bounds_text, estimate_text
from watchslo.timeline.format import ABSENT, duration, duration_text


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its heading, `title` explains it where the reader points at it, and `is_figure` aligns it right."""

    heading: str
    title: str = ""
    is_figure: bool = False


CONTROLLERS = (
    TableColumn("Resource"),
    TableColumn("Step"),
    TableColumn("Events", is_figure=True),
    TableColumn("P50", is_figure=True),
    TableColumn("P99", is_figure=True),
    TableColumn("P99 bounds", "Proven, without statistics", is_figure=True),
    TableColumn("Pending", "Objects that wait for this step; a dash if the watch may withhold events", is_figure=True),
    TableColumn("Oldest", "For how long the oldest of them has waited at least", is_figure=True),
    TableColumn(
        "Condition",
        "Slow: P99 is proven to be above the threshold of the step, or the oldest waits for longer",
    ),
)
"""The columns of `reaction_cells`."""


def shown_reactions(reactions: Iterable[ReactionStatus]) -> tuple[ReactionStatus, ...]:
    """Return the steps that have a row: those with events or pending objects."""
    return tuple(reaction for reaction in reactions if reaction.events or reaction.pending)


def reaction_cells(reaction: ReactionStatus) -> tuple[str, ...]:
    """Return the texts of one step of one resource."""
    known = {quantile.q: quantile for quantile in reaction.quantiles}
    return (
        reaction.name,
        reaction.step,
        f"{reaction.events:,}",
        estimate_text(known.get(P50)),
        estimate_text(known.get(P99)),
        bounds_text(known.get(P99)),
        ABSENT if reaction.pending is None else f"{reaction.pending:,}",
        duration_text(reaction.oldest_pending if reaction.pending else None),
        _judgement(reaction),
    )


def _judgement(reaction: ReactionStatus) -> str:
    """Return whether a step is within its threshold, which is named if not."""
    if reaction.threshold is None:
        return ABSENT
    return f"slow (> {duration(reaction.threshold)})" if reaction.slow else "within"
