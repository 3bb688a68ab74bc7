"""Theta from `Date` headers, and the bounds of the creation clock that depend on it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.offset import FORMER, REMEMBERED_SECONDS, ClockOffset, Dating, combine_datings
from watchslo.model import Interval

INF = math.inf
sixty_fourths = st.integers(0, 64).map(lambda n: n / 64)


class TestClockOffset:
    def test_is_unknown_before_the_first_answer(self) -> None:
        offset = ClockOffset()
        assert offset.bounds(5.0) is None
        assert offset.steps == 0

    def test_one_answer_bounds_it_to_a_second_and_a_round_trip(self) -> None:
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

    def test_bounds_widen_with_time_by_the_drift(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.25, 990.5, now=5.0)
        bounds = offset.bounds(1005.0)
        assert bounds is not None
        assert bounds.lower == pytest.approx(9.3)
        assert bounds.upper == pytest.approx(10.95)
        assert offset.bounds(-995.0) == bounds
        offset.observe(2001.0, 1990.75, 1991.0, now=1005.0)
        assert offset.bounds(1005.0) == Interval(10.0, bounds.upper)

    def test_touching_answer_is_no_step(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.0, 990.0, now=5.0)
        assert offset.observe(1001.0, 990.0, 990.0, now=5.0)
        assert offset.bounds(5.0) == Interval(11.0, 11.0)
        assert offset.steps == 0

    @pytest.mark.parametrize("step", [-3600.0, 3600.0])
    def test_contradicting_answer_is_a_step_and_starts_again(self, step: float) -> None:
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

    def test_local_clock_set_back_during_a_request_clears_the_offset(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.0, 990.5, now=5.0)
        assert not offset.observe(1001.0, 991.0, 981.5, now=5.0)
        assert offset.bounds(5.0) is None
        assert offset.steps == 1
        assert offset.observe(1001.0, 982.0, 982.5, now=6.0)
        assert offset.bounds(6.0) == Interval(18.5, 20.0)

    @pytest.mark.parametrize("back", [0.5, 1.0])
    def test_local_clock_set_back_by_less_than_a_second_is_accepted(self, back: float) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.0, 990.5, now=5.0)
        assert not offset.observe(2001.0, 991.0, 991.0 - back, now=5.0)
        assert offset.bounds(5.0) == Interval(1010.0 + back, 1011.0)

    def test_contradictory_first_answer_is_a_step(self) -> None:
        offset = ClockOffset()
        assert not offset.observe(1001.0, 991.0, 981.5, now=5.0)
        assert offset.bounds(5.0) is None
        assert offset.steps == 1

    @given(
        theta=st.integers(-8 * 3600, 8 * 3600).map(lambda n: n / 8),
        answers=st.lists(st.tuples(sixty_fourths, sixty_fourths, sixty_fourths), max_size=20),
        step=st.integers(5, 3600) | st.integers(-3600, -5),
    )
    def test_bounds_always_contain_the_true_offset(
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

    def test_many_answers_narrow_it_to_milliseconds(self) -> None:
        offset = ClockOffset()
        for k in range(120):
            sent = k * 0.509
            assert offset.observe(math.floor(sent + 0.001 + 12.345), sent, sent + 0.002, now=sent)
        bounds = offset.bounds(sent)
        assert bounds is not None
        assert bounds.lower <= 12.345 <= bounds.upper
        assert bounds.width < 0.04


def dated(dating: Dating, created_wall: float, received: float, committed: float = INF) -> tuple[float, float] | None:
    """Return the least and greatest age, or None if they are not certain."""
    lower, upper, sure = dating.ages(np.array([created_wall]), np.array([received]), np.array([committed]))
    return (float(lower[0]), float(upper[0])) if sure[0] else None


class TestDating:
    ALWAYS = Dating(Interval(9.75, 10.25), since=0.0, confirmed=INF)

    def test_age_covers_the_stamped_second_and_the_offset(self) -> None:
        assert dated(self.ALWAYS, 1000.0, 992.5) == (1.25, 2.75)

    def test_age_is_never_negative(self) -> None:
        assert dated(self.ALWAYS, 1000.0, 990.5) == (0.0, 0.75)

    def test_stamp_in_the_future_is_uncertain(self) -> None:
        assert dated(self.ALWAYS, 1000.0, 980.0) is None

    def test_arrival_after_confirmed_is_uncertain(self) -> None:
        dating = Dating(Interval(10.0, 10.0), since=0.0, confirmed=992.5)
        assert dated(dating, 1000.0, 992.5) == (1.5, 2.5)
        assert dated(dating, 1000.0, 992.625) is None

    def test_creation_before_the_first_answer_is_uncertain(self) -> None:
        dating = Dating(Interval(10.0, 10.0), since=990.0, confirmed=INF)
        assert dated(dating, 1000.0, 992.5) == (1.5, 2.5)
        assert dated(dating, 999.0, 992.5) is None

    @pytest.mark.parametrize("former", [5.0, 15.0])
    def test_stamp_possibly_from_before_a_step_is_uncertain(self, former: float) -> None:
        """If a clock is set from 5 s ahead to 10 s, an old stamp seems older than it is; from 15 s, younger."""
        dating = Dating(Interval(10.0, 10.0), since=990.0, confirmed=INF, former=(Interval(former, former),))
        stamp, received = math.floor(989.5 + former), 992.0
        assert dated(dating, stamp, received) is None
        assert dated(dating, 1006.0, 999.0) == (2.0, 3.0)

    def test_stamp_is_uncertain_if_one_of_several_former_clocks_may_have_made_it(self) -> None:
        possible, impossible = Interval(5.0, 5.0), Interval(-9000.0, -9000.0)
        dating = Dating(Interval(10.0, 10.0), since=990.0, confirmed=INF, former=(possible, impossible))
        assert dated(dating, 994.0, 992.0) is None

    @pytest.mark.parametrize(("committed", "sure"), [(INF, False), (2402.0, False), (2401.0, True), (2.0, True)])
    def test_former_clock_is_excluded_if_the_write_would_take_too_long(self, committed: float, *, sure: bool) -> None:
        """A clock was set back by 3000 s: the stamp is new, or 3002 to 3003 s old with an equally long write."""
        dating = Dating(Interval(0.0, 0.0), since=990.0, confirmed=INF, former=(Interval(3000.0, 3000.0),))
        assert dated(dating, 998.0, 1001.0, committed) == ((2.0, 3.0) if sure else None)

    def test_combined_dating_is_valid_for_each_clock(self) -> None:
        one = Dating(Interval(1.0, 4.0), since=10.0, confirmed=90.0)
        other = Dating(Interval(-2.0, 0.5), since=20.0, confirmed=95.0, former=(Interval(7.0, 8.0),))
        assert combine_datings([one, other]) == Dating(Interval(-2.0, 4.0), 20.0, 90.0, (Interval(7.0, 8.0),))
        assert combine_datings([one]) == one

    def test_combined_dating_is_unknown_if_one_is_unknown(self) -> None:
        assert combine_datings([self.ALWAYS, None]) is None
        assert combine_datings([None]) is None
        assert combine_datings([]) is None

    def test_is_unknown_before_the_first_answer(self) -> None:
        assert ClockOffset().dating(5.0) is None

    def test_dating_is_valid_from_the_first_answer_to_the_last_request(self) -> None:
        offset = ClockOffset()
        offset.observe(1000.0, 990.25, 990.5, now=990.5)
        offset.observe(1001.0, 990.75, 991.0, now=990.5)
        assert offset.dating(990.5) == Dating(Interval(10.0, 10.75), since=990.5, confirmed=990.75)

    @pytest.mark.parametrize(("quiet", "remembered"), [(REMEMBERED_SECONDS, True), (REMEMBERED_SECONDS + 1, False)])
    def test_dating_remembers_former_offsets_for_ten_minutes(self, quiet: float, *, remembered: bool) -> None:
        offset = ClockOffset()
        offset.observe(1010.0, 1000.0, 1000.0, now=0.0)
        offset.observe(1101.0, 1001.0, 1001.0, now=0.0)
        first, second = Interval(10.0, 11.0), Interval(100.0, 101.0)
        assert offset.dating(0.0) == Dating(second, since=1001.0, confirmed=1001.0, former=(first,))
        offset.observe(1021.0 + quiet, 1001.0 + quiet, 1001.0 + quiet, now=0.0)
        dating = offset.dating(0.0)
        assert dating
        assert dating.former == ((first, second) if remembered else (second,))

    def test_many_former_offsets_are_joined_from_the_oldest_on(self) -> None:
        """Behind a load balancer, the clocks of two apiservers may contradict each other at every answer."""
        offset = ClockOffset()
        for number in range(1000):
            offset.observe(1000.0 + 50.0 * (number % 7) + number / 8, number / 8, number / 8, now=0.0)
        assert offset.steps == 999
        dating = offset.dating(0.0)
        assert dating
        assert len(dating.former) == FORMER
        assert dating.former[0] == Interval(1000.0, 1301.0)
        assert dating.former[-1] == Interval(1200.0, 1201.0)
        offset.observe(9000.0, 2 * REMEMBERED_SECONDS, 2 * REMEMBERED_SECONDS, now=0.0)
        dating = offset.dating(0.0)
        assert dating
        assert dating.former == (Interval(1250.0, 1251.0),)

    def test_clock_set_forward_and_back_is_certain_again_soon(self) -> None:
        offset, now = ClockOffset(), 1000.0
        for ahead in (0.0, 3600.0, 0.0):
            for _ in range(40):
                now += 0.5
                offset.observe(math.floor(now + ahead), now, now, now)
        dating = offset.dating(now)
        assert dating
        assert dated(dating, math.floor(now - 5.0), now - 2.0, committed=2.0)

    @given(
        theta=st.integers(-3600 * 8, 3600 * 8).map(lambda n: n / 8),
        step=st.integers(5, 3600) | st.integers(-3600, -5),
        stepped=st.integers(0, 1024).map(lambda n: 1e6 + n / 64),
        created=st.integers(0, 1024).map(lambda n: 1e6 + n / 64),
        late=st.integers(0, 512).map(lambda n: n / 64),
    )
    def test_certain_ages_are_true_while_the_clock_is_set(
        self, theta: float, step: int, stepped: float, created: float, late: float
    ) -> None:
        """The clock is read every half second and answers at once."""
        received = created + late

        def wall(now: float) -> float:
            return now + theta + (step if now >= stepped else 0.0)

        offset, now = ClockOffset(), 1e6 - 2.0
        while now < received + 2.0:
            offset.observe(math.floor(wall(now)), now, now, now)
            dating = offset.dating(now)
            assert dating
            bounds = dated(dating, math.floor(wall(created)), received, late)
            assert bounds is None or bounds[0] <= late <= bounds[1]
            now += 0.5
        if stepped > received + 3.0 or (stepped < created - 2.0 and not -620 < step < 0):
            assert bounds is not None
