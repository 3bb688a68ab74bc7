"""The fault matrix: the daemon survives each fault, counts it correctly, and loses no event that was available."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

import pytest

from tests.e2e.faults import document
from tests.e2e.faults.harness import verify
from tests.e2e.faults.row import Outcome, Row
from tests.e2e.faults.rows_alone import ALONE, ALONE_LANES
from tests.e2e.faults.rows_linked import LINKED
from tests.e2e.faults.rows_simulated import SIMULATED_ROWS
from tests.e2e.faults.stages import AloneStage, LinkedStage, SimulatedStage, Stage
from tests.night import section
from tests.support.assets import Assets

ROWS = (*ALONE, *LINKED, *SIMULATED_ROWS)
S = TypeVar("S", bound=Stage)


def selected(request: pytest.FixtureRequest, rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows whose tests are to run."""
    params = {id(item.callspec.params.get("row")) for item in request.session.items if hasattr(item, "callspec")}
    return tuple(row for row in rows if id(row) in params)


def played(stage: S) -> Iterator[S]:
    """Open a stage if it has rows to play."""
    with stage if stage.rows else contextlib.nullcontext():
        yield stage


@pytest.fixture(scope="module", autouse=True)
def alone(
    request: pytest.FixtureRequest, assets: Assets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AloneStage]:
    """All stages play from the start of the module; each test waits for its row."""
    lanes = [lane for rows in ALONE_LANES if (lane := selected(request, rows))]
    yield from played(AloneStage(tmp_path_factory.mktemp("alone"), lanes, assets))


@pytest.fixture(scope="module", autouse=True)
def linked(
    request: pytest.FixtureRequest, assets: Assets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LinkedStage]:
    yield from played(LinkedStage(tmp_path_factory.mktemp("linked"), selected(request, LINKED), assets))


@pytest.fixture(scope="module", autouse=True)
def simulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedStage]:
    yield from played(SimulatedStage(tmp_path_factory.mktemp("simulated"), selected(request, SIMULATED_ROWS)))


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """The outcomes that are as expected, by the title of their row."""
    return {}


@pytest.mark.parametrize("row", ALONE, ids=lambda row: row.name)
def test_fault_of_apiserver_or_etcd(alone: AloneStage, row: Row, outcomes: dict[str, Outcome]) -> None:
    outcome = alone.outcome(row)
    verify(outcome)
    outcomes[row.title] = outcome


@pytest.mark.parametrize("row", LINKED, ids=lambda row: row.name)
def test_fault_of_link_rights_or_daemon(linked: LinkedStage, row: Row, outcomes: dict[str, Outcome]) -> None:
    outcome = linked.outcome(row)
    verify(outcome)
    outcomes[row.title] = outcome


@pytest.mark.parametrize("row", SIMULATED_ROWS, ids=lambda row: row.name)
def test_fault_of_simulated_apiserver(simulated: SimulatedStage, row: Row, outcomes: dict[str, Outcome]) -> None:
    outcome = simulated.outcome(row)
    verify(outcome)
    outcomes[row.title] = outcome


def test_document_agrees_with_rows(request: pytest.FixtureRequest, outcomes: dict[str, Outcome]) -> None:
    """Measured values differ from run to run; everything else in the document was proven by the tests above."""
    if request.config.getoption("--golden"):
        assert len(outcomes) == len(ROWS), "only all rows together make the document, and all must be as expected"
        night = section.of(document.PATH.read_text())
        document.PATH.write_text(document.render((outcomes[row.title] for row in ROWS), night))
    text = document.PATH.read_text()
    assert document.promised(text) == {row.title: document.promise(row) for row in ROWS}
    assert text.startswith(document.HEAD)
    assert section.without(text).endswith(document.TAIL)
