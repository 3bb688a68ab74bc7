"""What the monitor and its auditor do, step by step: transcripts in `tests/golden/monitor` and `.../auditor`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.transcripts import replay
from tests.unit.monitor.auditing import AuditScene
from tests.unit.monitor.scene import Scene, Stage
from tests.unit.monitor.transcript import MonitorScene

GOLDEN = Path(__file__).parents[2] / "golden"
SCENES: dict[str, Callable[[str], Scene]] = {"monitor": MonitorScene, "auditor": AuditScene}
TRANSCRIPTS = [f"{folder}/{path.name}" for folder in SCENES for path in sorted((GOLDEN / folder).glob("*.txt"))]
assert {name.partition("/")[0] for name in TRANSCRIPTS} == {*SCENES}


@pytest.fixture
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(SCENES[request.getfixturevalue("name").partition("/")[0]])
    yield made
    made.end()


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_transcript_is_what_happens(name: str, stage: Stage, golden: Callable[[str, str], None]) -> None:
    golden(name, replay((GOLDEN / name).read_text(), stage.begin))
