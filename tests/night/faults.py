"""The faults of the night, in their order, and what is right to say during each. `FAULTS` is the table."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.night.figures import Expectation, ExpectedAlert
from tests.night.stage import FROZEN_RESOURCE, NightStage
from tests.night.statements import DISTRUSTED, GOOD, NO_ANSWER
from tests.support.background import repeated

LATE_LAW = "normal 2s 200ms"  # twice the threshold
LOSE_SECONDS = 10.0
STOPPED_SECONDS, RUNNING_SECONDS = 0.4, 0.4
AWAY_SECONDS = 10.0

Hit = frozenset[str]
"""The names of the apiservers that a fault concerns."""


@dataclass(frozen=True, slots=True)
class NightFault:
    """A fault that lasts while the context of `strike` is open, here for `seconds`, or as long as its entry takes."""

    name: str
    words: str
    strike: Callable[[NightStage], AbstractContextManager[Hit]]
    seconds: float
    expected: Expectation


@contextlib.contextmanager
def stopped(stage: NightStage) -> Iterator[Hit]:
    member = stage.lab.members[0]
    with member.paused():
        yield frozenset({member.name})


@contextlib.contextmanager
def cut(stage: NightStage) -> Iterator[Hit]:
    member = stage.lab.members[1]
    with member.client.fault("frozen-link"):
        yield frozenset({member.name})


@contextlib.contextmanager
def slow_link(stage: NightStage) -> Iterator[Hit]:
    member = stage.lab.members[2]
    with member.client.late(LATE_LAW):
        yield frozenset({member.name})


@contextlib.contextmanager
def frozen_watch(stage: NightStage) -> Iterator[Hit]:
    with stage.lab.overrides[f"/{FROZEN_RESOURCE}"].fault("hole-to-client"):
        yield frozenset()


@contextlib.contextmanager
def restarted_apiserver(stage: NightStage) -> Iterator[Hit]:
    member = stage.lab.members[1]
    member.apiserver.process.kill()
    time.sleep(AWAY_SECONDS)
    member.apiserver.start()
    member.apiserver.wait_ready()
    yield frozenset({member.name})


@contextlib.contextmanager
def rolling_restart(stage: NightStage) -> Iterator[Hit]:
    for member in stage.lab.members:
        member.apiserver.restart()
    yield frozenset()


@contextlib.contextmanager
def expired_storm(stage: NightStage) -> Iterator[Hit]:
    with repeated(LOSE_SECONDS, lambda: stage.lab.lose_revisions(f"/{FROZEN_RESOURCE}")):
        yield frozenset()


@contextlib.contextmanager
def starved(stage: NightStage) -> Iterator[Hit]:
    with repeated(RUNNING_SECONDS, lambda: stage.daemon.process.pause(STOPPED_SECONDS)):
        yield frozenset()


@contextlib.contextmanager
def restarted_watchslo(stage: NightStage) -> Iterator[Hit]:
    stage.restart_daemon(AWAY_SECONDS)
    yield frozenset()


@contextlib.contextmanager
def mistaken_reload(stage: NightStage) -> Iterator[Hit]:
    stage.configure(watch=[{"resource": "No Such Resource"}])
    try:
        yield frozenset()
    finally:
        stage.configure()


def verdicts(*words: str) -> frozenset[str]:
    return frozenset(words)


def fires(after: float, *names: str) -> ExpectedAlert:
    return ExpectedAlert(frozenset(names), after)


LATENESS = frozenset({"WatchLatencyBudgetBurn", "WatchLatencyBadMinutes", "WatchClusterBadMinutes"})
UNRESPONSIVE = fires(200.0, "WatchApiserverUnresponsive")  # noticed in 10 s, for 1m
UNANSWERED = Expectation(
    verdicts("unresponsive"),
    (UNRESPONSIVE,),
    LATENESS,  # what was withheld arrives late
    frozenset({"WatchDown", "WatchStalled", "WatchApiserverTicksSlow", "WatchsloClockStopped"})
    | frozenset({"WatchsloCoverageLow", "WatchsloUnmeasurable"}),
)
RESTARTING = Expectation(
    verdicts("unresponsive", "down", "late", "stalled"),
    (UNRESPONSIVE,),
    LATENESS,
    tolerated=verdicts(GOOD),  # between two restarts
)
FAULTS = (
    NightFault(
        "stopped",
        "one of three apiservers stands still (SIGSTOP)",
        stopped,
        210.0,
        UNANSWERED,
    ),
    NightFault(
        "cut",
        "nothing passes between one apiserver and its clients",
        cut,
        210.0,
        UNANSWERED,
    ),
    NightFault(
        "slow-link",
        "everything from one apiserver is 2 s late",
        slow_link,
        150.0,
        Expectation(
            verdicts("late"),
            (fires(900.0, "WatchLatencyBadMinutes"), fires(780.0, "WatchApiserverTicksSlow")),
            LATENESS,
        ),
    ),
    NightFault(
        "frozen-watch",
        "the watch caches of one resource receive nothing",
        frozen_watch,
        240.0,
        Expectation(verdicts("stalled", "late"), (fires(240.0, "WatchStalled"),), LATENESS),
    ),
    NightFault(
        "restart",
        "one apiserver is killed, and started again after 10 s",
        restarted_apiserver,
        0.0,
        RESTARTING,
    ),
    NightFault(
        "rolling-restart",
        "all apiservers are restarted, one after another",
        rolling_restart,
        0.0,
        RESTARTING,
    ),
    NightFault(
        "expired-storm",
        "all watches of one resource end with 410 every 10 s",
        expired_storm,
        180.0,
        Expectation(
            verdicts("down", "late", "stalled", "cause"),
            (fires(180.0, "WatchExpiredLoop"),),
            frozenset({"WatchHistoryShort"}) | LATENESS,
            frozenset({"WatchRelistStorm"}),
        ),
    ),
    NightFault(
        "starved",
        "watchslo stands still for half of the time",
        starved,
        150.0,
        Expectation(
            verdicts("monitor_problem", "cause", "no_data", "undecided"),
            (fires(800.0, "WatchsloOverloaded"),),
            frozenset({"WatchsloUnmeasurable", "WatchsloCoverageLow"}),
            tolerated=verdicts(NO_ANSWER),  # 503, while it stands still
        ),
    ),
    NightFault(
        "restarted-watchslo",
        "watchslo is stopped, and started again after 10 s",
        restarted_watchslo,
        0.0,
        Expectation(verdicts(NO_ANSWER, "starting", "no_data")),
    ),
    NightFault(
        "mistaken-reload",
        "the changed configuration has a mistake",
        mistaken_reload,
        400.0,
        # The previous configuration measures on, so the watches are judged as before.
        Expectation(verdicts("good", DISTRUSTED), (fires(400.0, "WatchsloConfigReloadFailed"),)),
    ),
)
