"""All readings of one moment."""

from dataclasses import dataclass

from watchslo.snapshot.apiservers import ApiserverReading
from watchslo.snapshot.causes import CauseReading
from watchslo.snapshot.clocks import DomainReading
from watchslo.snapshot.informers import ClientReading
from watchslo.snapshot.monitor import MonitorReading
from watchslo.snapshot.reactions import ReactionReading
from watchslo.snapshot.verdicts import OverallVerdict
from watchslo.snapshot.watches import WatchReading


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All readings of one moment; `causes` has the active causes, the most certain first.

    `overall` is the verdict of the newest account of the timeline; None before the first.
    A snapshot that is served has the watches of the last evaluation, which was at `at_wall`, and newer readings of the
    daemon, the apiservers and the domains.
    """

    at_wall: float
    monitor: MonitorReading
    apiservers: tuple[ApiserverReading, ...]
    domains: tuple[DomainReading, ...]
    watches: tuple[WatchReading, ...]
    causes: tuple[CauseReading, ...] = ()
    overall: OverallVerdict | None = None
    reactions: tuple[ReactionReading, ...] = ()
    clients: tuple[ClientReading, ...] = ()
