import pytest

from watchslo.watch.failure import Reason, because
from watchslo.watch.missing_right import AGAIN_SECONDS, PROVEN_SECONDS, MissingRight

FORBIDDEN = because(Reason.FORBIDDEN)


def test_refusals_of_a_starting_apiserver_prove_nothing() -> None:
    right = MissingRight()
    for now in (1000.0, 1000.3, 1000.0 + PROVEN_SECONDS - 0.1):
        assert not right.is_proven(FORBIDDEN, now)
        assert right.pause(FORBIDDEN, now, 3600.0) == AGAIN_SECONDS


def test_second_refusal_a_minute_later_proves_that_the_right_is_missing() -> None:
    right = MissingRight()
    right.is_proven(FORBIDDEN, 1000.0)
    for later in (0.5 * AGAIN_SECONDS, AGAIN_SECONDS, 5000.0):
        assert right.is_proven(FORBIDDEN, 1000.0 + later)
        assert right.pause(FORBIDDEN, 1000.0 + later, 3600.0) == 3600.0


def test_answer_ends_the_doubt() -> None:
    right = MissingRight()
    right.is_proven(FORBIDDEN, 1000.0)
    right.resolve()
    assert not right.is_proven(FORBIDDEN, 1060.0), "the apiserver has started again"
    assert right.is_proven(FORBIDDEN, 1120.0)


@pytest.mark.parametrize("reason", [Reason.NOT_FOUND, Reason.NOT_WATCHABLE, Reason.UNPARSABLE])
def test_other_lasting_failure_counts_at_once(reason: Reason) -> None:
    right = MissingRight()
    assert right.pause(because(reason), 1000.0, 300.0) == 300.0
    assert not right.is_proven(FORBIDDEN, 1060.0)


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.UNAUTHORIZED, Reason.RELOAD])
def test_passing_failure_never_counts(reason: Reason) -> None:
    right = MissingRight()
    assert not right.is_proven(because(reason), 1000.0)
    assert not right.is_proven(because(reason), 5000.0)
