import math
from random import Random
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.errors import ConfigError
from watchslo.sim.delay_law import LAWS, parse_law
from watchslo.sim.delayed_channel import DelayQueue

N = 4000


def draws(text: str, now: float = 0.0) -> list[float]:
    law, random = parse_law(text), Random(7)
    return [law.draw(now, random) for _ in range(N)]


def test_numbers_are_seconds_or_milliseconds() -> None:
    assert set(draws("constant 20ms")) == set(draws("constant 0.02")) == set(draws("constant 0.02s")) == {0.02}


def test_laws_draw_with_their_parameters() -> None:
    assert median(draws("lognormal 20ms 0.5")) == pytest.approx(0.02, rel=0.05)
    assert fmean(draws("normal 500ms 100ms")) == pytest.approx(0.5, rel=0.02)
    assert draws("bimodal 20ms 3s 0.02").count(3.0) == pytest.approx(0.02 * N, rel=0.3)


def test_a_normal_delay_is_never_negative() -> None:
    assert min(draws("normal 10ms 100ms")) == 0.0


def test_law_hold_releases_all_items_together() -> None:
    law, random = parse_law("hold 2s 6s"), Random(7)
    leave = [now + law.draw(now, random) for now in (12.0, 12.5, 13.9)]
    assert leave == [14.0, 14.0, 14.0]
    assert [law.draw(now, random) for now in (14.0, 17.9)] == [0.0, 0.0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slow",
        "constant",
        "constant 1 2",
        "constant soon",
        "constant 1h",
        "normal -1 1",
        "lognormal 0 1",
        "hold 1 0",
    ],
)
def test_parse_law_refuses_invalid_text_with_a_remedy(text: str) -> None:
    with pytest.raises(ConfigError, match="Write"):
        parse_law(text)


def test_every_law_can_be_parsed() -> None:
    for name, (_, arguments) in LAWS.items():
        assert parse_law(" ".join([name, *("0.5" for _ in arguments.split())])).draw(0.0, Random(7)) >= 0.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100))))
def test_delay_queue_keeps_order_and_releases_nothing_early(arrivals: list[tuple[float, float]]) -> None:
    queue: DelayQueue[int] = DelayQueue()
    dues = []
    for number, (now, delay) in enumerate(sorted(arrivals)):
        queue.push(now + delay, number)
        dues.append(now + delay)
    left: list[int] = []
    while queue:
        now = queue.due
        left += queue.pop(now)
        assert all(dues[number] <= now for number in left)
    assert left == list(range(len(arrivals)))
    assert queue.due == math.inf
