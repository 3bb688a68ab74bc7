"""Reactions: how long after a change was asked for its controller acted, by resource and step."""

from collections.abc import Mapping

from watchslo.serve.metrics.family import counter, gauge, histogram
from watchslo.serve.metrics.labels import BOUND, CENTRE, NO_REACTION
from watchslo.serve.metrics.views import Value, bounds, each, per_reaction
from watchslo.snapshot import ReactionReading


def _quantiles(reaction: ReactionReading) -> Mapping[tuple[str, ...], Value]:
    return {
        (str(quantile.q), bound): value
        for quantile in reaction.quantiles
        for bound, value in bounds(quantile).items()
        if value != float("inf")
    }


REACTIONS = (
    histogram(
        "reaction_seconds",
        "Seconds from the commit that asks for something to the commit that shows that its controller acted.",
        basic=per_reaction(lambda r: r.histogram),
        beta=True,
    ),
    gauge(
        "reaction_window_seconds",
        "Quantiles of the reactions of the last five minutes, with proven bounds, in seconds; absent without any.",
        basic=per_reaction(_quantiles, CENTRE, BOUND),
        beta=True,
    ),
    gauge(
        "reaction_pending",
        "Number of objects that wait for their controller; absent while the watch is not known to be current.",
        basic=per_reaction(lambda r: r.pending),
        beta=True,
    ),
    gauge(
        "reaction_oldest_pending_seconds",
        "Seconds for which the oldest of these has waited at least; 0 without any.",
        basic=per_reaction(lambda r: r.oldest_pending),
        beta=True,
    ),
    counter(
        "reaction_unmeasured_total",
        "Total number of reactions that are not samples.",
        basic=per_reaction(lambda r: sum(r.unmeasured.values())),
        full=per_reaction(lambda r: each(NO_REACTION, r.unmeasured), NO_REACTION),
        beta=True,
    ),
)
