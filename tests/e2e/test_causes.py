"""What watchslo calls the cause of a fault: one of each kind; `make confusion` makes more, see docs/causes.md.

Each fault has the strengths of one seed. One that is not recognised is no failure yet: a wrong answer at high
confidence is, and so it is if more than a tenth of all are not right, or still blamed a minute after their end.
"""

from collections.abc import Iterator

import pytest

from tests.confusion.faults import FAULTS, Fault
from tests.confusion.matrix import RIGHT_SHARE, line, table
from tests.confusion.outcome import Outcome, play
from tests.confusion.stage import Stage
from tests.support.assets import Assets
from watchslo.snapshot import Cause

SEEDS = (1,)
OURS = {Cause.MONITOR_OVERLOADED}
"""That we were late ourselves is true wherever this machine stands still, and then all else is doubtful."""

pytestmark = pytest.mark.timeout(480)


@pytest.fixture(scope="module")
def stage(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("causes"), assets) as stage:
        yield stage


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """What came of those that were made so far."""
    return []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_wrong_is_said_with_confidence(stage: Stage, outcomes: list[Outcome], fault: Fault, seed: int) -> None:
    outcome = play(stage, fault, seed, print)
    outcomes.append(outcome)
    print(line(outcome))
    assert not {answer.cause for answer in outcome.wrong} - OURS, line(outcome)


def test_most_causes_are_named_and_cleared(outcomes: list[Outcome]) -> None:
    assert len(outcomes) == len(SEEDS) * len(FAULTS), "run all of this file: this is about all of them"
    assert sum(outcome.right for outcome in outcomes) > len(outcomes) / 2, table(outcomes)
    undisturbed = [outcome for outcome in outcomes if not outcome.overloaded]
    missed = [outcome for outcome in undisturbed if not outcome.right]
    blamed = [outcome for outcome in undisturbed if outcome.cleared_after is None]
    assert max(len(missed), len(blamed)) <= (1 - RIGHT_SHARE) * len(outcomes), table(outcomes)
