"""Texts for numbers, times and names: `tests/golden/words.txt` has those of functions whose arguments are words."""

from collections.abc import Callable
from importlib import import_module

import pytest

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, calls, replay
from watchslo.model import InstanceName
from watchslo.timeline.format import part_note, printable


def begin(module: str) -> Step:
    return calls(import_module(f"watchslo.{module}"))


def test_words_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("words.txt", replay((GOLDEN / "words.txt").read_text(), begin))


@pytest.mark.parametrize(
    ("part", "elsewhere", "note"),
    [
        (None, 0, ""),
        ("node worker-1", 0, "Only node worker-1 is shown here."),
        ("shard 2 of 3", 1, "Only shard 2 of 3 is shown here; 1 watch runs on other shards."),
        ("shard 2 of 3", 24, "Only shard 2 of 3 is shown here; 24 watches run on other shards."),
    ],
)
def test_part_note_says_what_is_not_shown(part: str | None, elsewhere: int, note: str) -> None:
    assert part_note(part, elsewhere) == note


@pytest.mark.parametrize(
    ("name", "title"),
    [
        (InstanceName(), "watchslo"),
        (InstanceName(cluster="prod"), "watchslo: prod"),
        (InstanceName(part="shard 1 of 3"), "watchslo: shard 1 of 3"),
        (InstanceName(cluster="prod", part="shard 1 of 3", host="watchslo-0"), "watchslo: prod, shard 1 of 3"),
    ],
)
def test_title_names_cluster_and_part(name: InstanceName, title: str) -> None:
    assert name.title == title


def test_printable_replaces_control_characters() -> None:
    assert printable("pods\x1b[31m\n é") == "pods?[31m? é"
