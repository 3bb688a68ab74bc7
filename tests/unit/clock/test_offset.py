"""Theta from `Date` headers, and the creation clock's bounds that stand on it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.offset import ClockOffset, creation_bounds, hull
from watchslo.model import Interval

sixty_fourths = st.integers(0, 64).map(lambda n: n / 64)


class TestClockOffset:
    def test_is_unknown_before_the_first_answer(self) -> None:
        offset = ClockOffset()
        assert offset.bounds(5.0) is None
        assert offset.steps == 0

    def test_one_answer_tells_it_to_a_second_and_a_round_trip(self) -> None:
        offset = ClockOffset()
        assert offset.observe(1000.0, 990.25, 990.5, now=5.0)
        assert offset.bounds(5.0) == Interval(9.5, 10.75)

    def test_answers_are_intersected(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.25, 990.5, now=5.0)
        assert offset.observe(1001.0, 990.75, 991.0, now=5.0)
        assert offset.bounds(5.0) == Interval(10.0, 10.75)
        assert offset.observe(1001.0, 991.5, 991.75, now=5.0)
        assert offset.bounds(5.0) == Interval(10.0, 10.5)

    def test_what_is_old_has_drifted_either_way(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.25, 990.5, now=5.0)
        bounds = offset.bounds(1005.0)
        assert bounds is not None
        assert bounds.lower == pytest.approx(9.3)
        assert bounds.upper == pytest.approx(10.95)
        assert offset.bounds(-995.0) == bounds
        offset.observe(2001.0, 1990.75, 1991.0, now=1005.0)
        assert offset.bounds(1005.0) == Interval(10.0, bounds.upper)

    def test_a_touching_answer_agrees(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.0, 990.0, now=5.0)
        assert offset.observe(1001.0, 990.0, 990.0, now=5.0)
        assert offset.bounds(5.0) == Interval(11.0, 11.0)
        assert offset.steps == 0

    @pytest.mark.parametrize("step", [-3600.0, 3600.0])
    def test_an_answer_that_contradicts_is_a_step_and_starts_anew(self, step: float) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.0, 990.5, now=5.0)
        assert not offset.observe(1001.0 + step, 991.0, 991.5, now=5.0)
        assert offset.steps == 1
        assert offset.bounds(5.0) == Interval(9.5 + step, 11.0 + step)
        assert offset.observe(1001.0 + step, 991.0, 991.5, now=5.0)
        assert offset.steps == 1
        assert not offset.observe(1001.0, 991.0, 991.5, now=5.0)
        assert offset.steps == 2

    def test_drift_is_no_step(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.0, 990.0, now=0.0)
        assert offset.observe(2001.125, 1990.0, 1990.0, now=1000.0)
        assert offset.steps == 0

    def test_our_clock_set_back_while_waiting_leaves_nothing_known(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.0, 990.5, now=5.0)
        assert not offset.observe(1001.0, 991.0, 981.5, now=5.0)
        assert offset.bounds(5.0) is None
        assert offset.steps == 1
        assert offset.observe(1001.0, 982.0, 982.5, now=6.0)
        assert offset.bounds(6.0) == Interval(18.5, 20.0)

    @pytest.mark.parametrize("back", [0.5, 1.0])
    def test_a_set_back_of_less_than_a_second_still_makes_sense(self, back: float) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.0, 990.5, now=5.0)
        assert not offset.observe(2001.0, 991.0, 991.0 - back, now=5.0)
        assert offset.bounds(5.0) == Interval(1010.0 + back, 1011.0)

    def test_the_very_first_answer_may_make_no_sense(self) -> None:
        offset = ClockOffset()
        assert not offset.observe(1001.0, 991.0, 981.5, now=5.0)
        assert offset.bounds(5.0) is None
        assert offset.steps == 1

    @given(
        theta=st.integers(-8 * 3600, 8 * 3600).map(lambda n: n / 8),
        answers=st.lists(st.tuples(sixty_fourths, sixty_fourths, sixty_fourths), max_size=20),
        step=st.integers(5, 3600) | st.integers(-3600, -5),
    )
    def test_the_truth_is_always_inside(
        self, theta: float, answers: list[tuple[float, float, float]], step: int
    ) -> None:
        offset = ClockOffset()
        now = 0.0
        for truth in (theta, theta + step):
            for k, (gap, there, back) in enumerate([(1.0, 0.5, 0.5), *answers]):
                sent, now = now + gap, now + gap + there + back
                date = math.floor(1e6 + sent + there + truth)
                agrees = offset.observe(date, 1e6 + sent, 1e6 + now, now)
                assert agrees == (truth == theta or k > 0)
                bounds = offset.bounds(now)
                assert bounds is not None
                assert bounds.lower <= truth <= bounds.upper
        assert offset.steps == 1

    def test_many_answers_squeeze_it_to_milliseconds(self) -> None:
        offset = ClockOffset()
        for k in range(120):
            sent = k * 0.509
            assert offset.observe(math.floor(sent + 0.001 + 12.345), sent, sent + 0.002, now=sent)
        bounds = offset.bounds(sent)
        assert bounds is not None
        assert bounds.lower <= 12.345 <= bounds.upper
        assert bounds.width < 0.04


class TestHull:
    def test_holds_all(self) -> None:
        assert hull([Interval(1.0, 4.0), Interval(-2.0, 0.5), Interval(0.0, 5.0)]) == Interval(-2.0, 5.0)
        assert hull([Interval(1.0, 4.0)]) == Interval(1.0, 4.0)

    def test_is_unknown_if_any_is(self) -> None:
        assert hull([Interval(1.0, 4.0), None]) is None
        assert hull([None]) is None
        assert hull([]) is None


class TestCreation:
    def test_lies_within_the_second_and_the_offset(self) -> None:
        assert creation_bounds(1000.0, 992.5, Interval(9.75, 10.25)) == Interval(1.25, 2.75)

    def test_is_never_negative(self) -> None:
        assert creation_bounds(1000.0, 990.5, Interval(9.75, 10.25)) == Interval(0.0, 0.75)
        assert creation_bounds(1000.0, 980.0, Interval(9.75, 10.25)) == Interval(0.0, 0.0)

    @given(
        theta=st.integers(-3600 * 8, 3600 * 8).map(lambda n: n / 8),
        slack=st.tuples(st.integers(0, 16), st.integers(0, 16)),
        created=st.integers(0, 1024).map(lambda n: 1e6 + n / 64),
        late=st.integers(0, 512).map(lambda n: n / 64),
    )
    def test_the_truth_is_always_inside(
        self, theta: float, slack: tuple[int, int], created: float, late: float
    ) -> None:
        offset = Interval(theta - slack[0] / 8, theta + slack[1] / 8)
        bounds = creation_bounds(math.floor(created + theta), created + late, offset)
        assert 0 <= bounds.lower <= late <= bounds.upper
