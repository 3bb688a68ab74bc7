"""What the monitor and its auditor do, step by step: transcripts in `tests/golden/monitor` and `.../auditor`."""

from collections.abc import Callable

import pytest

from tests.conftest import GOLDEN
from tests.unit.monitor.auditing import AuditScene
from tests.unit.monitor.scene import Play, Scene
from tests.unit.monitor.transcript import MonitorScene

SCENES: dict[str, Callable[[str], Scene]] = {"monitor": MonitorScene, "auditor": AuditScene}
TRANSCRIPTS = [f"{folder}/{path.name}" for folder in SCENES for path in sorted((GOLDEN / folder).glob("*.txt"))]
assert {name.partition("/")[0] for name in TRANSCRIPTS} == {*SCENES}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_transcript_is_what_happens(name: str, play: Play) -> None:
    play(name, SCENES[name.partition("/")[0]])
