"""The fault matrix: every fault is survived, counted as what it is, and costs no event that could have been kept."""

import contextlib
from collections.abc import Iterator
from typing import TypeVar

import pytest

from tests.e2e.faults import document
from tests.e2e.faults.harness import verify
from tests.e2e.faults.row import Outcome, Row
from tests.e2e.faults.rows_alone import ALONE
from tests.e2e.faults.rows_linked import LINKED
from tests.e2e.faults.rows_simulated import SIMULATED_ROWS
from tests.e2e.faults.stages import Alone, Linked, Simulated
from tests.support.assets import Assets

ROWS = (*ALONE, *LINKED, *SIMULATED_ROWS)
Stage = TypeVar("Stage", Linked, Simulated)

pytestmark = pytest.mark.timeout(600)


def wanted(request: pytest.FixtureRequest, rows: tuple[Row, ...]) -> list[Row]:
    """Those of the rows whose tests are to run."""
    params = {id(item.callspec.params.get("row")) for item in request.session.items if hasattr(item, "callspec")}
    return [row for row in rows if id(row) in params]


def played(stage: Stage) -> Iterator[Stage]:
    """A stage that plays, if there is anything to play."""
    with stage if stage.rows else contextlib.nullcontext():
        yield stage


@pytest.fixture(scope="module", autouse=True)
def linked(
    request: pytest.FixtureRequest, assets: Assets, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Linked]:
    """Plays from the beginning, while others wait for their turn."""
    yield from played(Linked(tmp_path_factory.mktemp("linked"), wanted(request, LINKED), assets))


@pytest.fixture(scope="module", autouse=True)
def simulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    yield from played(Simulated(tmp_path_factory.mktemp("simulated"), wanted(request, SIMULATED_ROWS)))


@pytest.fixture(scope="module")
def alone(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    with Alone(tmp_path_factory.mktemp("alone"), assets) as stage:
        yield stage


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Those that are as they should be, by the title of their row."""
    return {}


@pytest.mark.parametrize("row", ALONE, ids=lambda row: row.name)
def test_alone(alone: Alone, row: Row, outcomes: dict[str, Outcome]) -> None:
    outcome = alone.play(row)
    verify(outcome)
    outcomes[row.title] = outcome


@pytest.mark.parametrize("row", LINKED, ids=lambda row: row.name)
def test_linked(linked: Linked, row: Row, outcomes: dict[str, Outcome]) -> None:
    outcome = linked.play(row)
    verify(outcome)
    outcomes[row.title] = outcome


@pytest.mark.parametrize("row", SIMULATED_ROWS, ids=lambda row: row.name)
def test_simulated(simulated: Simulated, row: Row, outcomes: dict[str, Outcome]) -> None:
    outcome = simulated.play(row)
    verify(outcome)
    outcomes[row.title] = outcome


def test_the_document_says_so(request: pytest.FixtureRequest, outcomes: dict[str, Outcome]) -> None:
    """What was measured differs from run to run; all else is what was proven just now."""
    if request.config.getoption("--golden"):
        assert len(outcomes) == len(ROWS), "only all rows together make the document, and all must be as they should be"
        document.PATH.write_text(document.render(outcomes[row.title] for row in ROWS))
    text = document.PATH.read_text()
    assert document.promised(text) == {row.title: document.promise(row) for row in ROWS}
    assert text.startswith(document.HEAD)
    assert text.endswith(document.TAIL)
