"""Judges the verdict: as the page says it, and, for those on call, as all its readers and the alerts do."""

import contextlib
import time

from tests.lab.expected import OnCall
from tests.lab.figures import WELL, Episode, EpisodeFigures, figures
from tests.lab.judges.judge import Judge
from tests.lab.readers import Readers
from tests.lab.scene import LOOK_SECONDS, Fault, Hit, Scene
from tests.lab.statements import word_in_status
from tests.support.process import PATIENCE_SECONDS, eventually

HEALTHY_SECONDS = 30.0  # of a good verdict between two faults


class VerdictJudge(Judge):
    """Expects that the page says a right verdict during a fault, and that no watch is late soon after it."""

    def __init__(self, scene: Scene) -> None:
        self._daemon = scene.daemon
        self._expected = OnCall(frozenset())
        self._right = self._recovered = False

    def concerns(self, fault: Fault) -> bool:
        return fault.on_call is not None

    def prepare(self, fault: Fault) -> None:
        """Wait until the page says nothing that is right during the fault only."""
        self._expected = fault.on_call or self._expected
        self._right = self._recovered = False
        eventually(lambda: self._word() not in self._expected.verdicts - WELL, "no such verdict yet", LOOK_SECONDS)

    def struck(self, hit: Hit) -> None:
        """The verdict is about all apiservers."""

    def seen(self) -> bool:
        self._right = self._right or self._word() in self._expected.verdicts
        return self._right

    def finish(self) -> None:
        """Wait until the verdict is good again. A daemon that cannot keep up does not say so."""
        with contextlib.suppress(AssertionError):
            eventually(lambda: self._word() in WELL, "the verdict is good again", LOOK_SECONDS)
            self._recovered = True

    def complaints(self) -> list[str]:
        right = [] if self._right else [f"no verdict of {sorted(self._expected.verdicts)}"]
        return right + ([] if self._recovered else [f"no good verdict afterwards, but {self._word()}"])

    def _word(self) -> str:
        return word_in_status(self._daemon.status())[0]


class OnCallJudge(VerdictJudge):
    """Expects that all readers were shown what is right during a fault, and after it until all is well again.

    A fault that is made again counts only as it was made last.
    """

    def __init__(self, scene: Scene, readers: Readers, stretch: float = 1.0) -> None:
        super().__init__(scene)
        self._scene = scene
        self._readers = readers
        self._stretch = stretch
        self._episodes: list[Episode] = []

    def prepare(self, fault: Fault) -> None:
        self._fault, self._expected = fault, fault.on_call or self._expected
        self.least_seconds = self._stretch * self._expected.seconds
        self._until_healthy(frozenset[str]().union(*(alert.names for alert in self._expected.alerts)))

    def struck(self, hit: Hit) -> None:
        self._hit = hit

    def seen(self) -> bool:
        return True

    def finish(self) -> None:
        """Wait until all is well."""
        began, ended = self._scene.began, self._scene.ended or time.monotonic()
        words = self._expected.words or self._fault.words
        hit = frozenset({self._hit.apiserver} - {""})
        self._until_healthy(frozenset())
        self._episodes.append(Episode(self._fault.name, words, self._expected, began, ended, time.monotonic(), hit))

    def complaints(self) -> list[str]:
        return [*self.figures()[-1].missed()]

    def figures(self) -> list[EpisodeFigures]:
        """Return what was said during each fault and until all was well, by what is known now."""
        record = self._readers.record()
        found = {
            episode.name: figures(record, episode, self._episodes[:number])
            for number, episode in enumerate(self._episodes)
        }
        return [*found.values()]

    def _until_healthy(self, silent: frozenset[str]) -> None:
        """Wait until the page has been good for a while and none of these alerts fires; or no longer."""
        deadline, since = time.monotonic() + PATIENCE_SECONDS, time.monotonic()
        while time.monotonic() < min(deadline, since + HEALTHY_SECONDS):
            if self._readers.word("page") not in WELL or self._readers.firing & silent:
                since = time.monotonic()
            time.sleep(LOOK_SECONDS)
