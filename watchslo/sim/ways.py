"""The ways between the parts of a cluster, and the laws of delay in force on each."""

from dataclasses import dataclass

from watchslo.sim.delay import AT_ONCE, Law
from watchslo.sim.faults import EVERYTHING, Faults, Hop


@dataclass(slots=True)
class Way:
    """One hop of one resource; links ask it for its law at every item."""

    law: Law


class Ways:
    """All hops of all resources. A fault's law comes before one that was set, a resource's own before one for all."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._set: dict[tuple[Hop, str], Law] = {}
        self._ways: dict[tuple[Hop, str], Way] = {}

    def way(self, hop: Hop, resource: str) -> Way:
        if (hop, resource) not in self._ways:
            self._ways[hop, resource] = Way(self._in_force(hop, resource))
        return self._ways[hop, resource]

    def set(self, hop: Hop, resource: str, law: Law) -> None:
        """Delay a hop of one resource; for all of them, it takes the place of what was set for one."""
        if resource == EVERYTHING:
            self._set = {(other, name): kept for (other, name), kept in self._set.items() if other is not hop}
        self._set[hop, resource] = law
        self.apply()

    def apply(self) -> None:
        """Put the laws in force: after the faults have changed."""
        for (hop, resource), way in self._ways.items():
            way.law = self._in_force(hop, resource)

    def _in_force(self, hop: Hop, resource: str) -> Law:
        fallback = self._set.get((hop, EVERYTHING), AT_ONCE)
        return self._faults.law(hop, resource) or self._set.get((hop, resource), fallback)
