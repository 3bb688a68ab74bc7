"""Groups late watches by what they share: an apiserver, a resource, or nothing."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from watchslo.diagnose.evidence import ApiserverEvidence, Evidence, Key, Place, Watch


@dataclass(frozen=True, slots=True)
class Scope:
    """Watches that are late together.

    With `apiserver` alone, most watches of that apiserver; with `watch` alone, one resource at all apiservers; with
    both, one watch; with neither, the watches of every apiserver.
    """

    apiserver: str | None
    watch: str | None
    watches: tuple[Watch, ...]

    @property
    def place(self) -> Place | None:
        """Return where the time is lost, if all watches with a known place agree."""
        places = {watch.place for watch in self.watches} - {None}
        return places.pop() if len(places) == 1 else None

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset(watch.key for watch in self.watches)


def scopes(evidence: Evidence, unexplained: Collection[Key]) -> list[Scope]:
    """Return the scopes of the late watches that no cause explains yet."""
    late = [watch for key, watch in evidence.watches.items() if key in unexplained and watch.late and not watch.stuck]
    if evidence.several_watched and _is_every_watch(evidence, late):
        return [Scope(None, None, tuple(late))]
    late_by_name: dict[str, list[Watch]] = defaultdict(list)
    for watch in late:
        late_by_name[watch.name].append(watch)
    by_watch = [
        Scope(None, name, tuple(watches))
        for name, watches in late_by_name.items()
        if evidence.several_watched and _is_at_every_apiserver(evidence, name)
    ]
    taken = {key for scope in by_watch for key in scope.keys}
    rest = [watch for watch in late if watch.key not in taken]
    return [*by_watch, *_by_apiserver(evidence, rest)]


def _is_every_watch(evidence: Evidence, late: Sequence[Watch]) -> bool:
    names = {watch.name for watch in late}
    return len(names) > 1 and all(
        _is_most_of(apiserver, [w for w in late if w.apiserver == apiserver.name]) for apiserver in _judged(evidence)
    )


def _judged(evidence: Evidence) -> list[ApiserverEvidence]:
    return [
        apiserver
        for apiserver in evidence.apiservers.values()
        if any(watch.late or watch.healthy for watch in apiserver.watches)
    ]


def _is_at_every_apiserver(evidence: Evidence, name: str) -> bool:
    """Return whether a watch is late at two apiservers or more, and healthy at none."""
    at = evidence.by_name[name]
    return sum(watch.late for watch in at) > 1 and not any(watch.healthy for watch in at)


def _is_most_of(apiserver: ApiserverEvidence, late: Sequence[Watch]) -> bool:
    """Return whether at least two watches of the apiserver are late, and at least as many as are healthy."""
    return len(late) > 1 and len(late) >= sum(watch.healthy for watch in apiserver.watches)


def _by_apiserver(evidence: Evidence, late: Sequence[Watch]) -> Iterator[Scope]:
    together: dict[str, list[Watch]] = defaultdict(list)
    for watch in late:
        together[watch.apiserver].append(watch)
    for name, watches in together.items():
        apiserver = evidence.apiservers[name]
        if _is_most_of(apiserver, watches) or apiserver.troubled:
            yield Scope(name, None, tuple(watches))
        else:
            yield from (Scope(name, watch.name, (watch,)) for watch in watches)
