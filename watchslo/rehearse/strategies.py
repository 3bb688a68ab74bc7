"""The strategies that can be rehearsed: those of configurations, lists after a disconnect, and a watch alone. Pure."""

from watchslo.watch.strategy import RELIST, RELIST_PAGED, STRATEGIES, Strategy, relist

ZERO = "watch-zero"
"""The strategy without a list and without a mark: a watch from resourceVersion=0 begins with the cached objects."""

IN_WATCH = ("stream", ZERO)
"""Strategies whose objects come in the watch."""

NAMES = (*STRATEGIES, RELIST, RELIST_PAGED, ZERO)


def needs_revision(name: str) -> bool:
    """Return True if the list of a strategy needs a revision that was known before."""
    return name in (RELIST, RELIST_PAGED)


def protocol(name: str, revision: int) -> Strategy:
    """Return the strategy as the machine interprets it; `revision` is what the informer knew before."""
    return relist(revision, paged=name == RELIST_PAGED) if needs_revision(name) else STRATEGIES[name]
