"""Immutable readings of the daemon: metrics, status, page and terminal show these and nothing else.

Durations are seconds. Names of times end in `_wall`; they are Unix seconds.
"""

from watchslo.snapshot.apiservers import (
    ApiserverFigures,
    ApiserverMetricsReading,
    ApiserverReading,
    ApiserverRole,
    ResourceFigures,
    TimeTravelReading,
)
from watchslo.snapshot.causes import Cause, CauseReading, Confidence
from watchslo.snapshot.clocks import BurstReason, BurstWish, DomainReading, ReadUse, StorageKind, TickerReading
from watchslo.snapshot.figures import (
    HistogramReading,
    Hop,
    HopReading,
    NativeBuckets,
    ObjectiveReading,
    QuantileReading,
    TrackReading,
    WindowReading,
)
from watchslo.snapshot.informers import ClientReading, InformerReading, StoreVerdict
from watchslo.snapshot.monitor import BuildReading, IncompleteGroup, MonitorReading, ShardReading, WitnessReading
from watchslo.snapshot.reactions import ReactionReading, ReactionStep
from watchslo.snapshot.snapshot import Snapshot
from watchslo.snapshot.verdicts import OverallVerdict, WindowVerdict
from watchslo.snapshot.watches import (
    AuditReading,
    CacheReading,
    DelayBreakdown,
    DelayPart,
    DelayPartName,
    ExcessReading,
    FailureReading,
    GapReading,
    Guarantee,
    GuaranteeReading,
    HeadroomReading,
    ListReading,
    OutcomeReading,
    ReceivedReading,
    ReferenceWatchReading,
    ReplayReading,
    SessionReading,
    TransportReading,
    WatchReading,
)

__all__ = [
    "ApiserverFigures",
    "ApiserverMetricsReading",
    "ApiserverReading",
    "ApiserverRole",
    "AuditReading",
    "BuildReading",
    "BurstReason",
    "BurstWish",
    "CacheReading",
    "Cause",
    "CauseReading",
    "ClientReading",
    "Confidence",
    "DelayBreakdown",
    "DelayPart",
    "DelayPartName",
    "DomainReading",
    "ExcessReading",
    "FailureReading",
    "GapReading",
    "Guarantee",
    "GuaranteeReading",
    "HeadroomReading",
    "HistogramReading",
    "Hop",
    "HopReading",
    "IncompleteGroup",
    "InformerReading",
    "ListReading",
    "MonitorReading",
    "NativeBuckets",
    "ObjectiveReading",
    "OutcomeReading",
    "OverallVerdict",
    "QuantileReading",
    "ReactionReading",
    "ReactionStep",
    "ReadUse",
    "ReceivedReading",
    "ReferenceWatchReading",
    "ReplayReading",
    "ResourceFigures",
    "SessionReading",
    "ShardReading",
    "Snapshot",
    "StorageKind",
    "StoreVerdict",
    "TickerReading",
    "TimeTravelReading",
    "TrackReading",
    "TransportReading",
    "WatchReading",
    "WindowReading",
    "WindowVerdict",
    "WitnessReading",
]
