"""Which lanes are played for a judge."""

from collections.abc import Sequence

from tests.lab.faults import CLUSTERS
from tests.lab.scene import Fault, Setup
from tests.lab.stage import Lane


def lanes_of_counts(faults: Sequence[Fault]) -> list[Lane]:
    """Return lanes of faults that can use the same daemon, one after the other."""
    lanes: list[tuple[Setup, list[Fault]]] = []
    for fault in (one for one in faults if one.counts):
        setup = fault.setup
        fresh = setup.prepare is not None or (fault.counts is not None and fault.counts.from_start)
        fitting = [some for of, some in lanes if of == setup and not fresh]
        if fitting:
            fitting[0].append(fault)
        else:
            lanes.append((setup, [fault]))
    return [Lane(setup, tuple(some), written=True) for setup, some in lanes]


def lanes_of_alerts(faults: Sequence[Fault]) -> list[Lane]:
    """Return a lane for each cluster, with the faults that raise an alert there."""
    raising = {name: tuple(one for one in faults if name in clusters_of(one)) for name in CLUSTERS}
    return [Lane(CLUSTERS[name], some, name=name) for name, some in raising.items() if some]


def clusters_of(fault: Fault) -> set[str]:
    """Return the clusters where a fault raises an alert."""
    return {raised.cluster for raised in fault.raises}
