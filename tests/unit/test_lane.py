"""What a lane does with tests that fail: they run once more, alone, and are listed if they pass then."""

from collections.abc import Callable, Sequence

from tests import lane
from tests.conftest import GOLDEN
from tests.lane import Run
from tests.support.transcripts import Step, replay

SIDE_BY_SIDE = ("--numprocesses", "3", "tests/e2e")


def judged(outcome: str) -> Step:
    """Return a step that runs the tests which fail alone; before, `code test ...` of all side by side was known."""
    code, *failed = outcome.split()
    together = Run(int(code), tuple(failed))

    def step(words: str) -> str:
        fail_alone = {*words.split()[1:]}
        asked: list[Sequence[str]] = []
        sentences: list[str] = []

        def run(arguments: Sequence[str]) -> Run:
            asked.append(arguments)
            if arguments == SIDE_BY_SIDE:
                return together
            return Run(1, tuple(arguments)) if set(arguments) & fail_alone else Run(0)

        code = lane.judge(run, SIDE_BY_SIDE, sentences.append)
        assert asked == [SIDE_BY_SIDE, *([test] for test in failed if len(failed) <= lane.MOST_ALONE)]
        return "\n".join([f"code {code}", *sentences])

    return step


def test_failed_tests_run_once_more_alone(golden: Callable[[str, str], None]) -> None:
    golden("lane.txt", replay((GOLDEN / "lane.txt").read_text(), judged))
