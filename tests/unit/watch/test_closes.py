"""What an early, clean close most likely meant, by what else happened."""

from functools import partial

import pytest

from watchslo.watch.closes import SETTLE_SECONDS, TOGETHER_SECONDS, Close, Closes
from watchslo.watch.failure import Reason


class Run:
    """Closes of one apiserver, and what they were explained by."""

    def __init__(self) -> None:
        self.closes = Closes()
        self.told: list[tuple[int, Reason]] = []

    def close(self, stream: int, at: float = 0.0, **facts: object) -> None:
        known = {"open_streams": 10, "behind": False, "custom": False, **facts}
        self.closes.closed(Close(stream, at, tell=partial(self._tell, stream), **known))  # type: ignore[arg-type]

    def _tell(self, stream: int, reason: Reason) -> None:
        self.told.append((stream, reason))

    def told_at(self, now: float) -> list[tuple[int, Reason]]:
        self.closes.settle(now)
        return self.told


@pytest.fixture
def run() -> Run:
    return Run()


def test_nothing_is_said_before_the_rest_is_known(run: Run) -> None:
    run.close(1, at=5.0)
    assert run.told_at(5.0 + SETTLE_SECONDS - 0.01) == []
    assert run.told_at(5.0 + SETTLE_SECONDS) == [(1, Reason.FORCED)]
    assert run.told_at(100.0) == [(1, Reason.FORCED)]


def test_all_at_once_is_a_shutdown(run: Run) -> None:
    for stream in range(1, 9):
        run.close(stream, at=0.1 * stream)
    assert run.told_at(10.0) == [(stream, Reason.APISERVER_SHUTDOWN) for stream in range(1, 9)]


def test_most_at_once_is_none(run: Run) -> None:
    for stream in range(1, 8):
        run.close(stream)
    assert {reason for _, reason in run.told_at(10.0)} == {Reason.FORCED}


def test_far_apart_is_not_at_once(run: Run) -> None:
    run.close(1, open_streams=2)
    run.close(2, at=TOGETHER_SECONDS + 0.1, open_streams=2)
    assert {reason for _, reason in run.told_at(10.0)} == {Reason.FORCED}


def test_all_within_a_moment_is_at_once(run: Run) -> None:
    run.close(1, open_streams=2)
    run.close(2, at=TOGETHER_SECONDS, open_streams=2)
    assert {reason for _, reason in run.told_at(10.0)} == {Reason.APISERVER_SHUTDOWN}


def test_what_ended_just_before_is_remembered_until_the_rest_is_known(run: Run) -> None:
    run.closes.ended(5.0, 2, Reason.RESET)
    run.close(1, at=6.5, open_streams=2)
    assert run.told_at(9.0) == []
    assert run.told_at(10.0) == [(1, Reason.APISERVER_SHUTDOWN)]


def test_one_watch_alone_closed_together_with_nobody(run: Run) -> None:
    run.close(1, open_streams=1)
    assert run.told_at(10.0) == [(1, Reason.FORCED)]


def test_some_are_reset_where_others_are_closed(run: Run) -> None:
    run.close(1, open_streams=2)
    run.closes.ended(0.5, 2, Reason.RESET)
    assert run.told_at(10.0) == [(1, Reason.APISERVER_SHUTDOWN)]


@pytest.mark.parametrize("reason", [Reason.REFUSED, Reason.RESET, Reason.UNREACHABLE])
def test_an_apiserver_that_is_gone_afterwards_was_shut_down(run: Run, reason: Reason) -> None:
    run.close(1)
    run.closes.ended(0.1, 1, reason)
    assert run.told_at(10.0) == [(1, Reason.APISERVER_SHUTDOWN)]


@pytest.mark.parametrize(
    ("followed", "meant"),
    [
        (Reason.NOT_FOUND, Reason.CRD_DELETED),
        (Reason.THROTTLED, Reason.CRD_CHANGED),
        (Reason.EXPIRED, Reason.CRD_CHANGED),
        (Reason.TIMEOUT, Reason.FORCED),
    ],
)
def test_a_custom_resource_may_have_changed(run: Run, followed: Reason, meant: Reason) -> None:
    run.close(1, custom=True)
    run.close(2, custom=False)
    for stream in (1, 2):
        run.closes.ended(0.1, stream, followed)
    assert run.told_at(10.0) == [(1, meant), (2, Reason.FORCED)]


def test_whoever_was_behind_was_too_slow(run: Run) -> None:
    run.close(1, behind=True)
    run.close(2, behind=False)
    assert run.told_at(10.0) == [(1, Reason.SLOW_CONSUMER), (2, Reason.FORCED)]


def test_what_ended_before_says_nothing(run: Run) -> None:
    run.closes.ended(0.0, 1, Reason.REFUSED)
    run.close(1, at=5.0)
    assert run.told_at(20.0) == [(1, Reason.FORCED)]


def test_the_rest_is_explained_in_the_end(run: Run) -> None:
    run.close(1, at=1.0)
    run.closes.give_up()
    assert run.told == [(1, Reason.FORCED)]
