"""What all judges of a fault have in common, and how a fault is played before them."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from tests.lab.scene import LOOK_SECONDS, Fault, Hit, Scene
from tests.support.kept_up import while_kept_up
from tests.support.process import PATIENCE_SECONDS


class Judge(ABC):
    """Judges one fault at a time, from before its beginning until after its end.

    `complaints` are those that slowness of this machine may cause too; everything else is an AssertionError at once.
    A fault lasts for `least_seconds`, and until each judge has seen it. A judge that never sees it is not waited for.
    """

    least_seconds = 0.0

    @abstractmethod
    def concerns(self, fault: Fault) -> bool:
        """Return whether the table says what this judge expects of a fault."""

    @abstractmethod
    def prepare(self, fault: Fault) -> None:
        """Wait until the fault can be made."""

    @abstractmethod
    def struck(self, hit: Hit) -> None:
        """Take note that the fault was made."""

    @abstractmethod
    def seen(self) -> bool:
        """Return whether the fault may end."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until all is well again, and judge."""

    @abstractmethod
    def complaints(self) -> list[str]:
        """Return a sentence for each thing that was wrong."""


def play(scene: Scene, fault: Fault, judges: Sequence[Judge], seed: int) -> None:
    """Make a fault before all judges; it lasts until each of them has seen it, or it is given up."""
    judges = [judge for judge in judges if judge.concerns(fault)]
    assert judges, f"nothing is expected of {fault.name}"
    for judge in judges:
        judge.prepare(fault)
    scene.random = Random(f"{fault.name} {seed}")
    watched = scene.watched
    scene.member = scene.random.choice(watched) if watched else None
    scene.begins()
    with fault.strike(scene) as hit:
        for judge in judges:
            judge.struck(hit)
        least = scene.began + max(judge.least_seconds for judge in judges)
        while time.monotonic() < least + PATIENCE_SECONDS:
            seen = [judge.seen() for judge in judges]  # each looks, also while another has not seen it
            if all(seen) and time.monotonic() >= least:
                break
            time.sleep(LOOK_SECONDS)
    scene.ends_here()
    for judge in judges:
        judge.finish()


def prove(scene: Scene, fault: Fault, judges: Sequence[Judge], seed: int) -> None:
    """Play a fault, and fail if a judge complains; again, at most twice, if the daemon says it did not keep up."""

    def content(_: None) -> None:
        complaints = [complaint for judge in judges if judge.concerns(fault) for complaint in judge.complaints()]
        assert not complaints, f"{fault.name}: {'; '.join(complaints)}"

    while_kept_up(lambda: scene.daemon, lambda: play(scene, fault, judges, seed), content)
