"""The delay law in force on each hop of each resource: set by hand, or by a fault."""

from dataclasses import dataclass

from watchslo.sim.delay_law import NO_DELAY, DelayLaw
from watchslo.sim.faults import ALL_RESOURCES, Faults, SimHop


@dataclass(slots=True)
class HopDelay:
    """The delay law in force on one hop of one resource. Channels read it for every item."""

    law: DelayLaw


class DelayTable:
    """The delay laws of all hops.

    A fault's law overrides configured laws. A law for one resource overrides the law for all resources.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._configured: dict[tuple[SimHop, str], DelayLaw] = {}
        self._in_force: dict[tuple[SimHop, str], HopDelay] = {}

    def hop_delay(self, hop: SimHop, resource: str) -> HopDelay:
        if (hop, resource) not in self._in_force:
            self._in_force[hop, resource] = HopDelay(self._effective_law(hop, resource))
        return self._in_force[hop, resource]

    def set(self, hop: SimHop, resource: str, law: DelayLaw) -> None:
        """Configure the law of a hop; a law for all resources removes those configured for single ones."""
        if resource == ALL_RESOURCES:
            self._configured = {
                (other, name): kept for (other, name), kept in self._configured.items() if other is not hop
            }
        self._configured[hop, resource] = law
        self.apply()

    def apply(self) -> None:
        """Recompute the laws in force. Call it after the faults have changed."""
        for (hop, resource), delay in self._in_force.items():
            delay.law = self._effective_law(hop, resource)

    def _effective_law(self, hop: SimHop, resource: str) -> DelayLaw:
        fallback = self._configured.get((hop, ALL_RESOURCES), NO_DELAY)
        return self._faults.law(hop, resource) or self._configured.get((hop, resource), fallback)
