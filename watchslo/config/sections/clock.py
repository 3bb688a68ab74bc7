"""The section `clock`: how often ticks are sent."""

from typing import Annotated

from pydantic import Field

from watchslo.clock.storage_kind import StorageSetting
from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Duration, Namespace, between

_USUAL_INTERVAL_SECONDS = 0.5  # of ticks
_TICKS_IN_THRESHOLD = 2  # at least; with fewer, quantiles cannot be judged


class BurstConfig(ConfigSection):
    """Bursts: while more ticks would decide something, up to `rate` of them are sent a second, for at most two minutes.

    `rate` is of one clock through all apiservers together, by default half of `limits.requestsPerSecond` if that is
    less. All bursts of this instance together send at most `ticks_per_hour` in any hour; 0 turns them off.
    """

    rate: float = Field(default=10.0, ge=2, le=20)
    ticks_per_hour: int = Field(default=3600, ge=0, le=36_000)


class ClockConfig(ConfigSection):
    """How often ticks are sent, and to which namespace if it may be read; `storage` states whether the storage is etcd.

    Without a `namespace`, ticks go to that of the first watch if each watch has one.
    `interval` is the mean time between two ticks of the main clock through one apiserver, by all instances that share
    its ticks; with `mode: node`, some ticks are saved and follow events. The clocks of all other storages together
    tick as often as it does: with n of them, each has a tick every n intervals.
    """

    interval: Annotated[Duration, between("200ms", "1m")] = _USUAL_INTERVAL_SECONDS
    namespace: Namespace = "default"
    storage: StorageSetting = "auto"
    burst: BurstConfig = BurstConfig()


def slowest_interval(threshold: float) -> float:
    """Return the greatest mean time between ticks by which quantiles can be judged, in seconds."""
    return max(threshold / _TICKS_IN_THRESHOLD, _USUAL_INTERVAL_SECONDS)
