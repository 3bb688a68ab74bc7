"""Hand-made statuses of instances, in the form in which a daemon sends them."""

import json
from dataclasses import replace
from typing import Any

from tests.unit.serve import readings
from watchslo.api.part import decode
from watchslo.api.status import StatusDocument
from watchslo.model import InstanceName, shard_name
from watchslo.overview.merge import InstanceAnswer
from watchslo.serve.status import StatusEncoder
from watchslo.snapshot import OverallVerdict, ShardReading, Snapshot, WatchReading, WindowVerdict
from watchslo.timeline.headline import Headline
from watchslo.timeline.timeline import Timeline
from watchslo.timeline.verdict import Level

GOOD = Headline(OverallVerdict.GOOD, Level.GOOD, "All 2 watches are within 1 s.", "2 within 1 s")
LATE = Headline(OverallVerdict.LATE, Level.BAD, "pods: late since 14:02 UTC", "P99 8 s")
PAUSED = Headline(OverallVerdict.PAUSED, Level.UNKNOWN, "Cannot tell: paused by the configuration.")


def body(
    index: int = 0,
    count: int = 1,
    said: Headline | None = GOOD,
    *streams: WatchReading,
    name: InstanceName | None = None,
    version: str = "1.2.3",
    **changes: Any,
) -> bytes:
    """Return the answer of an instance: shard `index` of `count`, on a host of that number, with this headline."""
    part = shard_name(index, count) if count > 1 else None
    monitor = replace(
        readings.MONITOR,
        shard=ShardReading(index, count, 0),
        instance=name or InstanceName("prod-eu", part, host=f"watchslo-{index}"),
        build=replace(readings.BUILD, version=version),
    )
    snapshot: Snapshot = replace(readings.SNAPSHOT, **{"domains": (), **changes}, monitor=monitor, watches=streams)
    account = replace(Timeline().observe(snapshot), headline=said) if said else None
    return StatusEncoder().encode(snapshot, account).body


def status(*arguments: Any, **changes: Any) -> StatusDocument:
    return decode(body(*arguments, **changes), StatusDocument)


def report(*arguments: Any, address: str = "", **changes: Any) -> InstanceAnswer:
    """Return the report of an instance that answers."""
    index = arguments[0] if arguments else 0
    return InstanceAnswer(address or f"http://h{index}:9477", status(*arguments, **changes))


def silent(address: str, why: str = "the connection is refused") -> InstanceAnswer:
    """Return the report of an instance that has never answered."""
    return InstanceAnswer(address, failure=why)


def watch(lower: float, upper: float, **changes: Any) -> WatchReading:
    """Return a watch of pods at an apiserver with these bounds of its P99, judged by them and a threshold of 1 s."""
    quantile = replace(readings.TRACK.windows[1].quantiles[-1], lower=lower, upper=upper)
    track = readings.judged(100, quantile)
    return readings.changed(readings.TAIL, apiserver="10.0.0.1:6443", track=track, **changes)


assert watch(2.0, 3.0).track.verdict is WindowVerdict.BAD


def without(answer: bytes, *path: str) -> bytes:
    """Return the answer of an older daemon, which lacks a field."""
    whole = json.loads(answer)
    *parents, key = path
    part = whole
    for parent in parents:
        part = part[parent]
    del part[key]
    return json.dumps(whole).encode()
