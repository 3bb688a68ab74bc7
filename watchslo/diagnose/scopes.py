"""What is late together: of one apiserver, of one resource, of all."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from watchslo.diagnose.evidence import Apiserver, Evidence, Key, Place, Watch


@dataclass(frozen=True, slots=True)
class Scope:
    """Watches that are late together: all of an apiserver, one at all apiservers, one at one, or all (both absent)."""

    apiserver: str | None
    watch: str | None
    watches: tuple[Watch, ...]

    @property
    def place(self) -> Place | None:
        """Where the time goes, if all agree of whom it is known."""
        places = {watch.place for watch in self.watches} - {None}
        return places.pop() if len(places) == 1 else None

    @property
    def keys(self) -> frozenset[Key]:
        return frozenset(watch.key for watch in self.watches)


def scopes(evidence: Evidence, open_: Collection[Key]) -> list[Scope]:
    """Divides what is late by what it has in common."""
    late = [watch for key, watch in evidence.watches.items() if key in open_ and watch.late and not watch.stuck]
    if evidence.several and _is_everywhere(evidence, late):
        return [Scope(None, None, tuple(late))]
    by_watch = [
        Scope(None, name, tuple(one for one in late if one.name == name))
        for name in dict.fromkeys(watch.name for watch in late)
        if evidence.several and _is_at_all(evidence, name)
    ]
    taken = {key for scope in by_watch for key in scope.keys}
    rest = [watch for watch in late if watch.key not in taken]
    return [*by_watch, *_by_apiserver(evidence, rest)]


def _is_everywhere(evidence: Evidence, late: Sequence[Watch]) -> bool:
    names = {watch.name for watch in late}
    return len(names) > 1 and all(_is_whole(one, [w for w in late if w in one.watches]) for one in _judged(evidence))


def _judged(evidence: Evidence) -> list[Apiserver]:
    return [one for one in evidence.apiservers.values() if any(watch.late or watch.well for watch in one.watches)]


def _is_at_all(evidence: Evidence, name: str) -> bool:
    """Whether a watch is late wherever anything is known of it, and that at two apiservers or more."""
    at = evidence.at(name)
    return sum(watch.late for watch in at) > 1 and not any(watch.well for watch in at)


def _is_whole(apiserver: Apiserver, late: Sequence[Watch]) -> bool:
    """Whether it is most of an apiserver's watches that are late."""
    return len(late) > 1 and len(late) >= sum(watch.well for watch in apiserver.watches)


def _by_apiserver(evidence: Evidence, late: Sequence[Watch]) -> Iterator[Scope]:
    together: dict[str, list[Watch]] = defaultdict(list)
    for watch in late:
        together[watch.apiserver].append(watch)
    for name, watches in together.items():
        apiserver = evidence.apiservers[name]
        if _is_whole(apiserver, watches) or apiserver.troubled:
            yield Scope(name, None, tuple(watches))
        else:
            yield from (Scope(name, watch.name, (watch,)) for watch in watches)
