"""Makes the faults one after another, with healthy minutes between them, and returns what every reader was shown."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from tests.night.faults import NightFault
from tests.night.figures import WELL, Episode, EpisodeFigures, figures
from tests.night.readers import Report
from tests.night.stage import NightStage

HEALTHY_SECONDS = 30.0  # of a good verdict between two faults
PATIENCE_SECONDS = 240.0  # for that, and until no alert fires that the next fault must raise
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Played:
    """A fault as it was made, and what was said."""

    fault: NightFault
    figures: EpisodeFigures


def play(stage: NightStage, faults: Sequence[NightFault], stretch: float, report: Report) -> list[Played]:
    """Make these faults, each `stretch` times as long as its table says."""
    episodes: list[Episode] = []
    for fault in faults:
        _until_healthy(stage, fault)
        report(f"--- {fault.name}: {fault.words}")
        episodes.append(_strike(stage, fault, stretch))
        report(f"--- {fault.name} is over after {episodes[-1].seconds:.0f} s")
    _until_healthy(stage, None)
    ends = [*(episode.began for episode in episodes[1:]), time.monotonic()]
    whole = [replace(episode, until=until) for episode, until in zip(episodes, ends, strict=True)]
    record = stage.readers.record()
    return [
        Played(fault, figures(record, episode, whole[:number]))
        for number, (fault, episode) in enumerate(zip(faults, whole, strict=True))
    ]


def _strike(stage: NightStage, fault: NightFault, stretch: float) -> Episode:
    began = time.monotonic()
    with fault.strike(stage) as hit:
        time.sleep(stretch * fault.seconds)
    return Episode(fault.name, fault.expected, began, time.monotonic(), inf, hit)


def _until_healthy(stage: NightStage, following: NightFault | None) -> None:
    """Wait until the page has been good for a while, and the next fault finds its alerts silent; or no longer."""
    needed = following.expected.alerts if following else ()
    awaited = frozenset[str]().union(*(alert.names for alert in needed))
    deadline, since = time.monotonic() + PATIENCE_SECONDS, time.monotonic()
    while time.monotonic() < deadline:
        if stage.readers.page.word not in WELL or stage.readers.alerts.firing & awaited:
            since = time.monotonic()
        if time.monotonic() >= since + HEALTHY_SECONDS:
            return
        time.sleep(LOOK_SECONDS)
