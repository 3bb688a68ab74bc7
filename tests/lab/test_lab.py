"""A small selection of the laboratory: one fault of each place, and each judge. `make lab` plays all of them."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import pytest

from tests.lab.faults import CLUSTERS, FAULTS, THREE
from tests.lab.judges.alerts import AlertsJudge
from tests.lab.judges.cause import CauseJudge
from tests.lab.judges.counts import CountsJudge
from tests.lab.judges.judge import Judge
from tests.lab.judges.verdict import VerdictJudge
from tests.lab.monitoring import Monitoring
from tests.lab.scene import Fault, Scene
from tests.lab.stage import Errors, Lane, Stage
from tests.support.assets import Assets

HELD_SECONDS = 5.0  # causes are judged every five seconds
BY_NAME = {fault.name: fault for fault in FAULTS}


def lane(*names: str) -> Lane:
    faults = tuple(BY_NAME[name] for name in names)
    return Lane(faults[0].setup, faults)


ACTS = (
    (
        replace(lane("starved"), setup=CLUSTERS["starved"], name="daemon"),
        replace(lane("frozen-cache"), written=True),
        replace(lane("rights-revoked"), written=True),
    ),
    (replace(lane("etcd-slow"), setup=THREE, name="causes"),),
)
"""The lanes of each stage: three apiservers with sixty changes a second have the machine to themselves.

A fault of one of three apiservers is not among them: on a busy machine, each of the others is late at times, too.
"""
PLAYED = [pytest.param(lane, fault, id=fault.name) for act in ACTS for lane in act for fault in lane.faults]


@pytest.fixture(scope="module")
def errors(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """Play all faults, and return the error of each that was not judged as expected."""
    errors: Errors = {}
    for lanes in ACTS:
        with Stage(tmp_path_factory.mktemp("lab"), assets, lanes) as stage:
            errors |= play(stage)
    return errors


def play(stage: Stage) -> Errors:
    clusters = {name: scene for name, scene in stage.scenes.items() if name in CLUSTERS}
    with ExitStack() as stack:
        monitoring = stack.enter_context(Monitoring(stage.folder, clusters, whole=False)) if clusters else None

        def judges_of(scene: Scene) -> Sequence[Judge]:
            if monitoring and scene.name in clusters:
                return [AlertsJudge(scene, monitoring.hours, monitoring.days)]
            if scene.scribe:
                return [CountsJudge(scene)]
            return [CauseJudge(scene, held=HELD_SECONDS), VerdictJudge(scene)]

        return stage.play(judges_of, lambda fault, _: print(f"{fault.name}: as expected", flush=True))


@pytest.mark.parametrize(("lane", "fault"), PLAYED)
def test_fault_is_judged_as_expected(errors: Errors, lane: Lane, fault: Fault) -> None:
    if error := errors.get((lane.id, fault.name)):
        raise error
