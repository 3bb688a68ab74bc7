"""Options of `watchslo rules` that do not fit: `tests/golden/rules-refusals.txt` has what is said of each."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.transcripts import Step, replay
from watchslo.app.rules import RulesOptions, documents
from watchslo.errors import ConfigError

GOLDEN = Path(__file__).parents[2] / "golden"


def options(words: str) -> RulesOptions:
    """Return the options of `name=value ...`; labels are divided by commas."""
    given: dict[str, Any] = {name: text for name, _, text in (word.partition("=") for word in shlex.split(words))}
    for name in given.keys() & {"rule_labels", "alert_labels"}:
        given[name] = tuple(given[name].split(","))
    if "shrink" in given:
        given["shrink"] = int(given["shrink"])
    return RulesOptions(**given)


def test_options_that_do_not_fit_are_refused_with_an_example(
    golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    path = tmp_path / "watchslo.yaml"

    def begin(configuration: str) -> Step:
        path.write_text(configuration)
        return refusal

    def refusal(words: str) -> str:
        try:
            documents(path, options(words))
        except ConfigError as error:
            return str(error)
        return "accepted"

    golden("rules-refusals.txt", replay((GOLDEN / "rules-refusals.txt").read_text(), begin))
