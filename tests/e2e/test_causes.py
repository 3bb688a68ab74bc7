"""What watchslo calls the cause of a fault: two of each kind; `make confusion` makes more, see docs/causes.md."""

from collections.abc import Iterator
from secrets import randbits

import pytest

from tests.confusion.faults import FAULTS, Fault
from tests.confusion.matrix import line
from tests.confusion.outcome import play
from tests.confusion.stage import Stage
from tests.support.assets import Assets

TIMES = 2

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def stage(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("causes"), assets) as stage:
        yield stage


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("_time", range(TIMES))
def test_the_cause_is_named_and_cleared(stage: Stage, fault: Fault, _time: int) -> None:
    outcome = play(stage, fault, randbits(32), print)
    print(line(outcome))
    assert outcome.right, line(outcome)
    assert outcome.cleared_after is not None, line(outcome)
    assert not outcome.wrong, line(outcome)
