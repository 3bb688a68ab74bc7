"""Theta from `Date` headers, and the bounds of the creation clock that depend on it."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.offset import FORMER, REMEMBERED_SECONDS, ClockOffset, Dating, combine_datings
from watchslo.model import Interval

INF = math.inf
sixty_fourths = st.integers(0, 64).map(lambda n: n / 64)


class TestClockOffset:
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

    def test_combined_dating_is_valid_for_each_clock(self) -> None:
        one = Dating(Interval(1.0, 4.0), since=10.0, confirmed=90.0)
        other = Dating(Interval(-2.0, 0.5), since=20.0, confirmed=95.0, former=(Interval(7.0, 8.0),))
        assert combine_datings([one, other]) == Dating(Interval(-2.0, 4.0), 20.0, 90.0, (Interval(7.0, 8.0),))
        assert combine_datings([one]) == one

    def test_combined_dating_is_unknown_if_one_is_unknown(self) -> None:
        assert combine_datings([self.ALWAYS, None]) is None
        assert combine_datings([None]) is None
        assert combine_datings([]) is None

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
