"""The likeliest reason of an early and clean close."""

from functools import partial

import pytest

from watchslo.watch.closes import SETTLE_SECONDS, TOGETHER_SECONDS, Close, Closes
from watchslo.watch.failure import Reason


class Run:
    """The closes of one apiserver, and the reasons that they got."""

    def __init__(self) -> None:
        self.closes = Closes()
        self.explained: list[tuple[int, Reason]] = []

    def close(self, stream: int, at: float = 0.0, **facts: object) -> None:
        known = {"open_streams": 10, "behind": False, "custom": False, **facts}
        self.closes.closed(Close(stream, at, tell=partial(self._explain, stream), **known))  # type: ignore[arg-type]

    def _explain(self, stream: int, reason: Reason) -> None:
        self.explained.append((stream, reason))

    def explained_at(self, now: float) -> list[tuple[int, Reason]]:
        self.closes.settle(now)
        return self.explained


@pytest.fixture
def run() -> Run:
    return Run()


def test_close_is_explained_after_settle_seconds(run: Run) -> None:
    run.close(1, at=5.0)
    assert run.explained_at(5.0 + SETTLE_SECONDS - 0.01) == []
    assert run.explained_at(5.0 + SETTLE_SECONDS) == [(1, Reason.FORCED)]
    assert run.explained_at(100.0) == [(1, Reason.FORCED)]


def test_all_watches_closed_together_means_shutdown(run: Run) -> None:
    for stream in range(1, 9):
        run.close(stream, at=0.1 * stream)
    assert run.explained_at(10.0) == [(stream, Reason.APISERVER_SHUTDOWN) for stream in range(1, 9)]


def test_fewer_than_the_share_closed_together_is_no_shutdown(run: Run) -> None:
    for stream in range(1, 8):
        run.close(stream)
    assert {reason for _, reason in run.explained_at(10.0)} == {Reason.FORCED}


def test_closes_far_apart_are_no_shutdown(run: Run) -> None:
    run.close(1, open_streams=2)
    run.close(2, at=TOGETHER_SECONDS + 0.1, open_streams=2)
    assert {reason for _, reason in run.explained_at(10.0)} == {Reason.FORCED}


def test_closes_within_together_seconds_mean_shutdown(run: Run) -> None:
    run.close(1, open_streams=2)
    run.close(2, at=TOGETHER_SECONDS, open_streams=2)
    assert {reason for _, reason in run.explained_at(10.0)} == {Reason.APISERVER_SHUTDOWN}


def test_watch_that_ended_just_before_counts_as_closed_together(run: Run) -> None:
    run.closes.ended(5.0, 2, Reason.RESET)
    run.close(1, at=6.5, open_streams=2)
    assert run.explained_at(9.0) == []
    assert run.explained_at(10.0) == [(1, Reason.APISERVER_SHUTDOWN)]


def test_single_watch_is_never_a_shutdown(run: Run) -> None:
    run.close(1, open_streams=1)
    assert run.explained_at(10.0) == [(1, Reason.FORCED)]


def test_reset_watches_count_as_closed_together(run: Run) -> None:
    run.close(1, open_streams=2)
    run.closes.ended(0.5, 2, Reason.RESET)
    assert run.explained_at(10.0) == [(1, Reason.APISERVER_SHUTDOWN)]


@pytest.mark.parametrize("reason", [Reason.REFUSED, Reason.RESET, Reason.UNREACHABLE])
def test_unreachable_apiserver_after_a_close_means_shutdown(run: Run, reason: Reason) -> None:
    run.close(1)
    run.closes.ended(0.1, 1, reason)
    assert run.explained_at(10.0) == [(1, Reason.APISERVER_SHUTDOWN)]


@pytest.mark.parametrize(
    ("followed", "meant"),
    [
        (Reason.NOT_FOUND, Reason.CRD_DELETED),
        (Reason.THROTTLED, Reason.CRD_CHANGED),
        (Reason.INITIALIZING, Reason.CRD_CHANGED),
        (Reason.CONVERSION, Reason.CRD_CHANGED),
        (Reason.EXPIRED, Reason.CRD_CHANGED),
        (Reason.TIMEOUT, Reason.FORCED),
    ],
)
def test_failure_after_close_of_custom_resource_suggests_crd_change(run: Run, followed: Reason, meant: Reason) -> None:
    run.close(1, custom=True)
    run.close(2, custom=False)
    for stream in (1, 2):
        run.closes.ended(0.1, stream, followed)
    assert run.explained_at(10.0) == [(1, meant), (2, Reason.FORCED)]


def test_watch_that_was_behind_is_a_slow_consumer(run: Run) -> None:
    run.close(1, behind=True)
    run.close(2, behind=False)
    assert run.explained_at(10.0) == [(1, Reason.SLOW_CONSUMER), (2, Reason.FORCED)]


def test_failure_before_the_close_is_ignored(run: Run) -> None:
    run.closes.ended(0.0, 1, Reason.REFUSED)
    run.close(1, at=5.0)
    assert run.explained_at(20.0) == [(1, Reason.FORCED)]


def test_give_up_explains_all_pending_closes(run: Run) -> None:
    run.close(1, at=1.0)
    run.closes.give_up()
    assert run.explained == [(1, Reason.FORCED)]
