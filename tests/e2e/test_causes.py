"""watchslo names the cause of each fault that is injected here; `make confusion` injects all of them, more often.

Each fault has the strength of one seed. A fault that is not recognised is no failure by itself. A wrong answer at high
confidence is one, and so are two faults that are not named, or two causes that are still named a minute later.
How soon causes are named and cleared, and that nothing is named without a fault, is tested with a simulated clock in
`tests/unit/diagnose/test_causes.py`.
"""

from collections.abc import Iterator

import pytest

from tests.confusion import outcome as confusion
from tests.confusion.faults import FAULTS, Fault
from tests.confusion.matrix import line, table
from tests.confusion.outcome import Outcome, play
from tests.confusion.stage import Stage
from tests.support.assets import Assets
from watchslo.snapshot import Cause

SEED = 1
NAMES = {"etcd slow", "one resource slow", "one client side slow", "headroom too short", "watch stalled"}
"""One fault of each place: etcd, one cache, one apiserver, the history, and one connection."""
CHOSEN = [fault for fault in FAULTS if fault.name in NAMES]
MISSES = 1  # of the chosen faults
OURS = {Cause.MONITOR_OVERLOADED}
"""A true answer wherever this machine stands still; the daemon then doubts all other causes."""
NAMED_SECONDS = 75.0  # how soon is for `make confusion` and for tests with a clock; here the machine may be busy
HELD_SECONDS = 6.0  # causes are judged every five seconds
REST_SECONDS = 2.0  # a cause is cleared after fifteen seconds without it


@pytest.fixture(scope="module")
def stage(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The stage of the confusion matrix, with shorter pauses, and more time until a cause has to be named."""
    with pytest.MonkeyPatch.context() as patch, Stage(tmp_path_factory.mktemp("causes"), assets) as stage:
        patch.setattr(confusion, "NAMED_SECONDS", NAMED_SECONDS)
        patch.setattr(confusion, "HELD_SECONDS", HELD_SECONDS)
        patch.setattr(confusion, "REST_SECONDS", REST_SECONDS)
        yield stage


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """The outcomes of the faults that were made so far."""
    return []


@pytest.mark.parametrize("fault", CHOSEN, ids=lambda fault: fault.name)
def test_fault_has_no_wrong_cause_at_high_confidence(stage: Stage, outcomes: list[Outcome], fault: Fault) -> None:
    outcome = play(stage, fault, SEED, print)
    outcomes.append(outcome)
    print(line(outcome))
    assert not {answer.cause for answer in outcome.wrong} - OURS, line(outcome)


def test_most_causes_are_named_and_cleared(outcomes: list[Outcome]) -> None:
    assert len(outcomes) == len(NAMES), "run the whole file: this test is about all its faults"
    assert sum(outcome.right for outcome in outcomes) > len(outcomes) / 2, table(outcomes)
    undisturbed = [outcome for outcome in outcomes if not outcome.overloaded]
    missed = [outcome for outcome in undisturbed if not outcome.right]
    blamed = [outcome for outcome in undisturbed if outcome.cleared_after is None]
    assert max(len(missed), len(blamed)) <= MISSES, table(outcomes)
