"""How a stream comes to know a revision to watch from. This is all that strategies differ in.

A strategy is data for the machine. `parallel`, which watches while it lists, `stream`, whose watch brings the list, and
`cache`, which starts from the apiserver's cache, will stand here too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from watchslo.watch.messages import ListRequest


@dataclass(frozen=True, slots=True)
class Strategy:
    """`first` is the list to begin with, `throttled` the one to ask for after a 429, until a list has succeeded.

    While a cache is not ready, apiservers answer 429 to all lists but those that etcd answers: those with `limit=1`.
    With `paged`, lists come in pages and are followed to their end; without, one answer tells all.
    """

    name: str
    first: ListRequest
    throttled: ListRequest
    paged: bool


TAIL = Strategy("tail", first=ListRequest(absent_name=True), throttled=ListRequest(limit=1), paged=False)
"""Lists nothing, and watches from the revision of that: its cost does not depend on the number of objects."""

PAGED = Strategy("paged", first=ListRequest(), throttled=ListRequest(), paged=True)
"""Lists all objects, page by page, as a client does that keeps them."""

STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in (TAIL, PAGED)}
"""All of them, by the names that configurations use."""
