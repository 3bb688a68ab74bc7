"""What a lane does with tests that fail: they run once more, alone, and are listed if they pass then."""

from collections.abc import Sequence

import pytest

from tests import lane
from tests.lane import Run

SIDE_BY_SIDE = ("--numprocesses", "3", "tests/e2e")


@pytest.mark.parametrize(
    ("together", "fail_alone", "code", "said"),
    [
        pytest.param(Run(0), (), 0, [], id="all pass"),
        pytest.param(
            Run(1, ("a", "b")),
            (),
            0,
            ["failed: 2; each runs once more, alone:", "passed only alone:", "  a", "  b"],
            id="both pass alone",
        ),
        pytest.param(
            Run(1, ("a", "b")),
            ("b",),
            1,
            ["failed: 2; each runs once more, alone:", "passed only alone:", "  a"],
            id="one fails again",
        ),
        pytest.param(
            Run(1, ("a", "b", "c", "d")),
            (),
            1,
            ["failed: 4, which is more than 3, so none runs alone."],
            id="too many fail",
        ),
        pytest.param(Run(2), (), 2, [], id="interrupted"),
        pytest.param(Run(5), (), 5, [], id="no test selected"),
    ],
)
def test_failed_tests_run_once_more_alone(
    together: Run, fail_alone: Sequence[str], code: int, said: Sequence[str]
) -> None:
    asked: list[Sequence[str]] = []
    sentences: list[str] = []

    def run(arguments: Sequence[str]) -> Run:
        asked.append(arguments)
        if arguments == SIDE_BY_SIDE:
            return together
        return Run(1, tuple(arguments)) if set(arguments) & set(fail_alone) else Run(0)

    assert lane.judge(run, SIDE_BY_SIDE, sentences.append) == code
    assert sentences == said
    assert asked == [SIDE_BY_SIDE, *([test] for test in together.failed if len(together.failed) <= lane.MOST_ALONE)]
