"""The screen and its keys; textual draws it in memory."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from tests.unit.app.top.fake_source import VIEW, FakeSource
from tests.unit.serve import readings
from watchslo.app.table import STYLES
from watchslo.app.terminal import NOT_YET
from watchslo.app.top import screen
from watchslo.app.top.screen import Top
from watchslo.errors import ConfigError, ConnectError
from watchslo.timeline.condition import Condition


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> FakeSource:
    monkeypatch.setattr(screen, "LOOK_SECONDS", 0.2)  # keys wait until nothing is drawn
    return FakeSource()


@pytest.fixture
async def shown(source: FakeSource) -> AsyncIterator[Pilot[None]]:
    async with Top(source).run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: bool(rows(pilot)))
        yield pilot


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait until the screen shows the state of its source."""
    while not condition():
        await pilot.pause(0.02)


def rows(pilot: Pilot[None]) -> list[str]:
    table = pilot.app.query_one(DataTable)
    return [str(table.get_cell_at((row, 0))) for row in range(table.row_count)]  # type: ignore[arg-type]


def heading(pilot: Pilot[None]) -> str:
    """Return the heading with the mark."""
    labels = [str(column.label) for column in pilot.app.query_one(DataTable).columns.values()]
    (marked,) = (label for label in labels if label[-1] in "▲▼")
    return marked


def text(pilot: Pilot[None], name: str) -> str:
    place = pilot.app.query_one(f"#{name}", Static)
    return str(place.content) if place.display else ""


async def test_screen_shows_place_headline_notes_and_rows(shown: Pilot[None]) -> None:
    assert text(shown, "place").startswith("watchslo top: prod-eu   http://there   ")
    assert text(shown, "headline") == NOT_YET
    assert text(shown, "notes").splitlines()[-1] == "Unproven: its storage is kine, not etcd."
    assert text(shown, "link") == ""
    assert text(shown, "trust") == ""
    assert len(rows(shown)) == len(readings.SNAPSHOT.watches)


TABLES = ("controllers", "clients")


def tables(pilot: Pilot[None]) -> list[str]:
    """Return the tables that are shown below the watches."""
    return [name for name in TABLES if pilot.app.query_one(f"#{name}", Static).display]


async def test_controllers_and_clients_are_shown_below_the_watches_but_not_below_details(shown: Pilot[None]) -> None:
    assert tables(shown) == [*TABLES]
    await shown.press("enter")
    assert tables(shown) == []
    await shown.press("escape")
    assert tables(shown) == [*TABLES]


async def test_controllers_and_clients_without_rows_take_no_place(shown: Pilot[None], source: FakeSource) -> None:
    source.now = replace(VIEW, reactions=())
    await until(shown, lambda: tables(shown) == ["clients"])
    source.now = replace(VIEW, clients=())
    await until(shown, lambda: tables(shown) == ["controllers"])
    assert rows(shown)


async def test_daemon_verdict_replaces_headline(source: FakeSource, shown: Pilot[None]) -> None:
    verdict, trust = "pods: late since 14:02 UTC.", "Can I trust this? Yes: all self checks pass."
    source.now = replace(VIEW, verdict=verdict, trust=trust)
    await until(shown, lambda: text(shown, "headline") == verdict)
    assert text(shown, "trust") == trust


async def test_number_keys_sort(shown: Pilot[None]) -> None:
    assert heading(shown) == "CONDITION▼"
    await shown.press("1")
    assert (heading(shown), rows(shown)) == ("WATCH▲", sorted(rows(shown)))
    await shown.press("1")
    assert (heading(shown), rows(shown)) == ("WATCH▼", sorted(rows(shown), reverse=True))
    await shown.press("2")
    assert heading(shown) == "EVENTS▼"


async def test_filter_takes_keys_until_enter_and_escape_clears_it(shown: Pilot[None]) -> None:
    await shown.press("slash", *"pods1q")
    assert rows(shown) == []
    await shown.press("backspace", "backspace", "enter")
    assert rows(shown) == ["pods"]
    await shown.press("1")
    assert heading(shown) == "WATCH▲", "keys go to the table again"
    assert rows(shown) == ["pods"]
    await shown.press("escape")
    assert len(rows(shown)) == len(readings.SNAPSHOT.watches)


async def test_enter_opens_details_that_escape_closes(shown: Pilot[None]) -> None:
    assert rows(shown)[0] == "jobs"
    table, detail = shown.app.query_one(DataTable), shown.app.query_one("#detail")
    await shown.press("down", "up", "enter")
    await until(shown, lambda: "Stall detection" in text(shown, "detail-text"))
    assert text(shown, "detail-text").startswith("jobs: stalled for 33.5 s\n")
    assert (table.display, detail.display, detail.has_focus) == (False, True, True)
    await shown.press("1", "slash")
    assert shown.app.check_action("sort", (0,)) is False, "the table is hidden"
    await shown.press("escape")
    assert (table.display, detail.display, table.has_focus) == (True, False, True)
    assert heading(shown) == "CONDITION▼"


async def test_details_of_a_removed_watch_say_so(shown: Pilot[None], source: FakeSource) -> None:
    source.now = replace(VIEW, lines=(replace(VIEW.lines[0], watch="gone"),))
    await until(shown, lambda: len(rows(shown)) == 1)
    await shown.press("enter")
    await until(shown, lambda: text(shown, "detail-text") == screen.GONE)


async def test_cursor_stays_on_its_watch(shown: Pilot[None], source: FakeSource) -> None:
    table = shown.app.query_one(DataTable)
    await shown.press("1", "down")
    chosen = rows(shown)[1]
    await shown.press("1")
    assert rows(shown)[table.cursor_row] == chosen
    await shown.press("down")
    source.now = replace(VIEW, lines=VIEW.lines[:1])
    await until(shown, lambda: len(rows(shown)) == 1)
    assert table.cursor_row == 0


async def test_rows_follow_added_and_removed_watches(shown: Pilot[None], source: FakeSource) -> None:
    source.now = replace(VIEW, lines=VIEW.lines[-1:])
    await until(shown, lambda: rows(shown) == ["pods"])
    source.now = VIEW
    await until(shown, lambda: len(rows(shown)) == len(VIEW.lines))


async def test_row_of_late_watch_changes_style(shown: Pilot[None], source: FakeSource) -> None:
    def colours() -> set[str]:
        table = shown.app.query_one(DataTable)
        return {str(cell.style) for cell in table.get_row_at(rows(shown).index("pods"))}

    assert colours() == {STYLES[Condition.WITHIN]}
    source.now = replace(VIEW, lines=tuple(replace(line, condition=Condition.LATE) for line in VIEW.lines))
    await until(shown, lambda: colours() == {STYLES[Condition.LATE]})


async def test_headings_name_the_quantile_that_is_judged(shown: Pilot[None], source: FakeSource) -> None:
    def headings() -> list[str]:
        return [str(column.label).strip() for column in shown.app.query_one(DataTable).ordered_columns]

    assert headings()[3:5] == ["P99", "P99 BOUNDS"]
    source.now = replace(VIEW, lines=tuple(replace(line, quantile=0.95) for line in VIEW.lines))
    await until(shown, lambda: headings()[3:5] == ["P95", "P95 BOUNDS"])
    assert rows(shown)


async def test_notes_are_limited(shown: Pilot[None], source: FakeSource) -> None:
    source.now = replace(
        VIEW,
        causes=(),
        lines=(),
        unproven=(),
        not_ready=tuple(f"{number} has not been opened yet" for number in range(16)),
    )
    await until(shown, lambda: text(shown, "notes").endswith("\n… and 12 more."))
    assert len(text(shown, "notes").splitlines()) == 5


async def test_narrow_terminal_shortens_names(source: FakeSource) -> None:
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


async def test_outage_shows_link_line_until_daemon_answers(shown: Pilot[None], source: FakeSource) -> None:
    source.now = ConnectError("the connection is refused")
    await until(shown, lambda: text(shown, "link").startswith("Disconnected since "))
    assert "the connection is refused. Figures are from " in text(shown, "link")
    assert len(rows(shown)) == len(VIEW.lines)
    source.now = VIEW
    await until(shown, lambda: not text(shown, "link"))


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_quit_keys_end_the_screen(shown: Pilot[None], key: str) -> None:
    await shown.press(key)
    assert not shown.app.is_running


async def test_permanent_error_ends_the_screen(shown: Pilot[None], source: FakeSource) -> None:
    source.now = ConfigError("it is over")
    await until(shown, lambda: not shown.app.is_running)
    assert isinstance(shown.app, Top)
    assert shown.app.broken is source.now
