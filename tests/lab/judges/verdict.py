"""Judges the verdict: as the page says it, and, for those on call, as all its readers and the alerts do."""

import time
from dataclasses import replace
from math import inf

from tests.lab.expected import OnCall
from tests.lab.figures import WELL, Episode, EpisodeFigures, figures
from tests.lab.judges.judge import LOOK_SECONDS, Judge
from tests.lab.readers import VerdictReaders
from tests.lab.scene import Fault, Hit, Scene
from tests.lab.statements import word_in_status
from tests.support.process import eventually

HEALTHY_SECONDS = 30.0  # of a good verdict between two faults
LIMIT_SECONDS = 240.0  # for that, and until no alert fires that the next fault must raise


class VerdictJudge(Judge):
    """Expects that the page says a right verdict during a fault, and that no watch is late soon after it."""

    def __init__(self, scene: Scene) -> None:
        self._daemon = scene.daemon
        self._expected = OnCall(frozenset())
        self._right = False

    def concerns(self, fault: Fault) -> bool:
        return fault.on_call is not None

    def prepare(self, fault: Fault) -> None:
        """Wait until the page says that no watch is late."""
        self._expected = fault.on_call or self._expected
        self._right = False
        eventually(lambda: self._word() in WELL, "the verdict is good", LOOK_SECONDS)

    def struck(self, hit: Hit) -> None:
        """The verdict is about all apiservers."""

    def seen(self) -> bool:
        self._right = self._right or self._word() in self._expected.verdicts
        return self._right

    def finish(self) -> None:
        eventually(lambda: self._word() in WELL, "the verdict is good again", LOOK_SECONDS)

    def complaints(self) -> list[str]:
        return [] if self._right else [f"no verdict of {sorted(self._expected.verdicts)}, but {self._word()}"]

    def _word(self) -> str:
        return word_in_status(self._daemon.status())[0]


class OnCallJudge(VerdictJudge):
    """Keeps when each fault began and ended; what all readers were shown is compared at the end of the night."""

    def __init__(self, scene: Scene, readers: VerdictReaders, stretch: float = 1.0) -> None:
        super().__init__(scene)
        self._scene = scene
        self._readers = readers
        self._stretch = stretch
        self._episodes: list[Episode] = []
        eventually(lambda: readers.page.word in WELL, "the verdict is good", LOOK_SECONDS)

    def prepare(self, fault: Fault) -> None:
        self._fault, self._expected = fault, fault.on_call or self._expected
        self._until_healthy(frozenset[str]().union(*(alert.names for alert in self._expected.alerts)))

    def struck(self, hit: Hit) -> None:
        self._hit = hit

    def seen(self) -> bool:
        return time.monotonic() >= self._scene.began + self._stretch * self._expected.seconds

    def finish(self) -> None:
        began, ended = self._scene.began, self._scene.ended or time.monotonic()
        words = self._expected.words or self._fault.words
        hit = frozenset({self._hit.apiserver} - {""})
        self._episodes.append(Episode(self._fault.name, words, self._expected, began, ended, inf, hit))

    def complaints(self) -> list[str]:
        return []

    def figures(self) -> list[EpisodeFigures]:
        """Wait until all is well, and return what was said during each fault and until the next."""
        self._until_healthy(frozenset())
        ends = [*(episode.began for episode in self._episodes[1:]), time.monotonic()]
        whole = [replace(episode, until=until) for episode, until in zip(self._episodes, ends, strict=True)]
        record = self._readers.record()
        return [figures(record, episode, whole[:number]) for number, episode in enumerate(whole)]

    def _until_healthy(self, silent: frozenset[str]) -> None:
        """Wait until the page has been good for a while and none of these alerts fires; or no longer."""
        deadline, since = time.monotonic() + LIMIT_SECONDS, time.monotonic()
        while time.monotonic() < min(deadline, since + HEALTHY_SECONDS):
            if self._readers.page.word not in WELL or self._readers.alerts.firing & silent:
                since = time.monotonic()
            time.sleep(LOOK_SECONDS)
