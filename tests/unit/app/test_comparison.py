"""What is said of apiservers that are compared."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.monitor.cluster import nowhere
from tests.unit.serve.readings import EMPTY, IDLE
from watchslo.app import comparison
from watchslo.app.comparison import ApiserverComparison, MinutesOfExcess, compare
from watchslo.config.model import Config
from watchslo.kube.client import Client
from watchslo.kube.discovery import Catalogue
from watchslo.snapshot import ExcessReading
from watchslo.watch.failure import Failure, Reason, because

OLD, NEW = "10.0.0.1:6443", "10.0.0.2:6443"
SLOWER = ApiserverComparison(NEW, 385, 0.101, 0.102, 0.104, 0.101)


def minutes(*seconds: tuple[float, float]) -> MinutesOfExcess:
    """Return what was observed of evaluations at these wall times, with these P50 of the new apiserver."""
    found = MinutesOfExcess()
    for at, p50 in seconds:
        old = replace(IDLE, apiserver=OLD, behind_fastest=ExcessReading(100, 0.0, 0.001))
        new = replace(IDLE, apiserver=NEW, behind_fastest=ExcessReading(100, p50, 2 * p50))
        found.observe(replace(EMPTY, at_wall=at, watches=(old, new)))
    return found


def test_median_of_the_minutes_and_the_worst_minute_are_compared() -> None:
    observed = minutes((0.0, 0.9), (60.0, 0.1), (90.0, 0.8), (120.0, 0.3), (180.0, 0.2))
    old, new = compare(observed, {OLD: [0.01, 0.03], NEW: [0.04, 0.02]})
    assert (new.events, new.p50, new.p99) == (300, 0.2, 0.6)
    assert [old.page, new.page] == pytest.approx([0.02, 0.03])
    assert [old.page_behind, new.page_behind] == pytest.approx([0.005, 0.015])


def test_shorter_measurement_has_the_last_that_is_known() -> None:
    _, new = compare(minutes((0.0, 0.9), (5.0, 0.1), (10.0, 0.2)), {OLD: [0.01], NEW: [0.02]})
    assert (new.events, new.p50) == (100, 0.2)


def test_what_was_not_compared_is_not_known() -> None:
    observed = MinutesOfExcess()
    observed.observe(replace(EMPTY, watches=(IDLE,)))
    (only, other) = compare(observed, {OLD: [math.nan, 0.01], NEW: [math.nan, math.nan]})
    assert (only.events, only.is_compared, only.page, only.page_behind) == (0, False, 0.01, 0.0)
    assert (other.page, other.page_behind) == (None, None)
    assert not [*other.slower(0.0)]


def test_minute_with_more_events_counts_for_more() -> None:
    observed = minutes((0.0, 0.1), (60.0, 0.1))
    many = replace(IDLE, apiserver=NEW, behind_fastest=ExcessReading(1000, 0.4, 0.5))
    observed.observe(replace(EMPTY, at_wall=120.0, watches=(many,)))
    _, new = compare(observed, {OLD: [], NEW: []})
    assert (new.events, new.p50) == (1100, 0.4)


@pytest.mark.parametrize("answering", [True, False])
async def test_apiserver_that_does_not_answer_costs_no_other_one_its_lists(
    monkeypatch: pytest.MonkeyPatch, *, answering: bool
) -> None:
    """The first is away: another one says which resources there are, or none does, and no list is known."""

    class Found:
        def __init__(self, client: Callable[[], Client]) -> None:
            self._name = client().name

        async def refresh(self) -> Catalogue | Failure:
            return Catalogue(()) if answering and self._name == NEW else because(Reason.REFUSED)

    monkeypatch.setattr("watchslo.app.comparison.Discovery", Found)
    urls = (f"https://{OLD}", f"https://{NEW}")
    kubernetes = Config().kubernetes.model_copy(update={"apiservers": urls})
    config = Config().model_copy(update={"kubernetes": kubernetes, "watch": ()})
    assert await comparison._listed(config, nowhere()) == {OLD: [], NEW: []}


def test_slower_apiserver_is_named_with_its_figures() -> None:
    assert [*SLOWER.slower(0.05)] == [
        f"{NEW} delivers 101 ms later than the fastest (P50 of 385 events).",
        f"{NEW} takes 101 ms longer for a page of a list (P50).",
    ]
    assert not [*SLOWER.slower(0.2)]
    assert SLOWER.document == {
        "apiserver": NEW,
        "events": 385,
        "behindP50": 0.101,
        "behindP99": 0.102,
        "listPage": 0.104,
        "listBehind": 0.101,
    }
