"""The screen, by its keys: textual draws it in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from tests.unit.app.top.told import VIEW, Told
from tests.unit.serve import readings
from watchslo.app.table import STYLES
from watchslo.app.top import screen
from watchslo.app.top.screen import Top
from watchslo.errors import ConfigError, ConnectError
from watchslo.history.judgement import Verdict


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setattr(screen, "LOOK_SECONDS", 0.2)  # keys wait until nothing is drawn
    return Told()


@pytest.fixture
async def shown(source: Told) -> AsyncIterator[Pilot[None]]:
    async with Top(source).run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: bool(rows(pilot)))
        yield pilot


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Waits until the screen has caught up with its source."""
    async with asyncio.timeout(60.0):
        while not condition():
            await pilot.pause(0.02)


def rows(pilot: Pilot[None]) -> list[str]:
    table = pilot.app.query_one(DataTable)
    return [str(table.get_cell_at((row, 0))) for row in range(table.row_count)]  # type: ignore[arg-type]


def heading(pilot: Pilot[None]) -> str:
    """The one that has the mark."""
    labels = [str(column.label) for column in pilot.app.query_one(DataTable).columns.values()]
    (marked,) = (label for label in labels if label[-1] in "▲▼")
    return marked


def said(pilot: Pilot[None], name: str) -> str:
    place = pilot.app.query_one(f"#{name}", Static)
    return str(place.content) if place.display else ""


async def test_what_is_shown(shown: Pilot[None]) -> None:
    assert said(shown, "place").startswith("watchslo top: prod-eu   http://there   ")
    assert said(shown, "headline") == "Within the objective: 1 watch; of 2 nothing can be said."
    assert said(shown, "notes").splitlines()[-1] == "Unproven: its storage is kine, not etcd."
    assert said(shown, "link") == ""
    assert said(shown, "trust") == ""
    assert len(rows(shown)) == len(readings.SNAPSHOT.streams)


async def test_what_the_daemon_says_first_stands_first(source: Told, shown: Pilot[None]) -> None:
    verdict, trust = "pods: late since 14:02 UTC.", "Can I trust this? Yes, watchslo itself is well."
    source.now = replace(VIEW, verdict=verdict, trust=trust)
    await until(shown, lambda: said(shown, "headline") == verdict)
    assert said(shown, "trust") == trust


async def test_keys_sort(shown: Pilot[None]) -> None:
    assert heading(shown) == "VERDICT▼"
    await shown.press("1")
    assert (heading(shown), rows(shown)) == ("WATCH▲", sorted(rows(shown)))
    await shown.press("1")
    assert (heading(shown), rows(shown)) == ("WATCH▼", sorted(rows(shown), reverse=True))
    await shown.press("2")
    assert heading(shown) == "EVENTS▼"


async def test_a_filter_takes_what_is_typed_and_escape_takes_it_away(shown: Pilot[None]) -> None:
    await shown.press("slash", *"pods1q")
    assert rows(shown) == []
    await shown.press("backspace", "backspace", "enter")
    assert rows(shown) == ["pods"]
    await shown.press("1")
    assert heading(shown) == "WATCH▲", "keys are commands again"
    assert rows(shown) == ["pods"]
    await shown.press("escape")
    assert len(rows(shown)) == len(readings.SNAPSHOT.streams)


async def test_watches_come_and_go(shown: Pilot[None], source: Told) -> None:
    source.now = replace(VIEW, lines=VIEW.lines[-1:])
    await until(shown, lambda: rows(shown) == ["pods"])
    source.now = VIEW
    await until(shown, lambda: len(rows(shown)) == len(VIEW.lines))


async def test_the_whole_row_of_a_watch_that_becomes_late_is_coloured(shown: Pilot[None], source: Told) -> None:
    def colours() -> set[str]:
        table = shown.app.query_one(DataTable)
        return {str(cell.style) for cell in table.get_row_at(rows(shown).index("pods"))}

    assert colours() == {STYLES[Verdict.WITHIN]}
    source.now = replace(VIEW, lines=tuple(replace(line, verdict=Verdict.BEYOND) for line in VIEW.lines))
    await until(shown, lambda: colours() == {STYLES[Verdict.BEYOND]})


async def test_notes_leave_room_for_the_table(shown: Pilot[None], source: Told) -> None:
    source.now = replace(
        VIEW,
        causes=(),
        lines=(),
        unproven=(),
        not_ready=tuple(f"{number} has not been opened yet" for number in range(16)),
    )
    await until(shown, lambda: said(shown, "notes").endswith("\n… and 12 more such."))
    assert len(said(shown, "notes").splitlines()) == 5


async def test_a_small_terminal_shows_the_figures_of_long_names(source: Told) -> None:
    long = replace(VIEW.lines[0], watch="horizontalrunners.infrastructure.example.com", apiserver="10.0.0.1:6443")
    short, whole = "horizontalrun…1:6443", "horizontalrunners.infrastructure.example.com at 10.0.0.1:6443"
    source.now = replace(VIEW, lines=(long,), causes=("late, " * 60,) * 3)
    async with Top(source).run_test(size=(80, 16)) as pilot:
        await until(pilot, lambda: bool(rows(pilot)))
        assert rows(pilot) == [short]
        table = pilot.app.query_one(DataTable)
        assert table.size.height > 3, "room for some watches"
        await pilot.resize_terminal(140, 30)
        await until(pilot, lambda: rows(pilot) == [whole])
        await pilot.resize_terminal(80, 16)
        await until(pilot, lambda: rows(pilot) == [short])
        await until(pilot, lambda: table.ordered_columns[0].content_width == len(short))  # figures are seen again


async def test_an_outage_is_said_and_ends(shown: Pilot[None], source: Told) -> None:
    source.now = ConnectError("nobody listens there")
    await until(shown, lambda: said(shown, "link").startswith("Disconnected since "))
    assert "nobody listens there. What is shown is of " in said(shown, "link")
    assert len(rows(shown)) == len(VIEW.lines)
    source.now = VIEW
    await until(shown, lambda: not said(shown, "link"))


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_keys_that_leave(shown: Pilot[None], key: str) -> None:
    await shown.press(key)
    assert not shown.app.is_running


async def test_what_cannot_be_mended_ends_the_screen(shown: Pilot[None], source: Told) -> None:
    source.now = ConfigError("it is over")
    await until(shown, lambda: not shown.app.is_running)
    assert isinstance(shown.app, Top)
    assert shown.app.broken is source.now
