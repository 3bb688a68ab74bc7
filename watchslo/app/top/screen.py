"""The screen of `watchslo top`; only this module needs textual."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Input, Static

from watchslo.api.feed import WatchDetail
from watchslo.app.details import written
from watchslo.app.hints import problems, unready
from watchslo.app.table import draw_clients, draw_reactions, figures, headings, status, style
from watchslo.app.terminal import NOT_YET, Line, View
from watchslo.app.top.choice import Choice, Link, clock
from watchslo.app.top.sources import Measurement, Source
from watchslo.errors import ConnectError
from watchslo.serve.rows import key_of
from watchslo.timeline.format import part_note

LOOK_SECONDS = 1.0
MOST_NOTES = 5  # more would leave no room for the table
COLUMNS = len(headings(())) + 1
NAME_COLUMN, CONDITION_COLUMN = 0, COLUMNS - 1
FIGURES_WIDTH = 64  # characters of all columns except names, with the space between them
LEAST_NAME = 20  # characters; on narrower terminals, the user scrolls to the figures
KEYS_HELP = f"q quit   / filter   ↑↓ select   Enter details   1-{COLUMNS} sort by that column, again to reverse"
GONE = "There is no such watch now, or the daemon is older and has no details."
DETAIL_HELP = "q quit   Escape back to all watches   ↑↓ scroll"


def first_of(notes: Sequence[str]) -> list[str]:
    """Return the first notes, which are the gravest, and the number of the others."""
    if len(notes) <= MOST_NOTES:
        return list(notes)
    return [*notes[: MOST_NOTES - 1], f"… and {len(notes) - MOST_NOTES + 1} more."]


def shortened(name: str, room: int) -> str:
    """Shorten a name in its middle: it begins with the resource and ends with the apiserver."""
    if len(name) <= room:
        return name
    end = (room - 1) // 3
    return f"{name[: room - 1 - end]}…{name[-end:]}"


async def show(source: Source) -> None:
    """Show a source until the user quits; raise the error that ends the screen otherwise."""
    async with source:
        app = Top(source)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, app.exit)  # restores the terminal
        try:
            await app.run_async(mouse=False)  # the terminal's own text selection keeps working
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
    if app.broken:
        raise app.broken


class Top(App[None]):
    """A headline, the watches, and why they are late."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #place { text-style: dim; height: 1; }
    #link { color: $text-error; text-style: bold; }
    #headline { text-style: bold; }
    #notes { max-height: 30%; }
    #keys { dock: bottom; height: 1; text-style: dim; }
    DataTable { height: 1fr; background: transparent; }
    #controllers { height: auto; max-height: 20%; }
    #clients { height: auto; max-height: 15%; }
    #detail { height: 1fr; background: transparent; }
    Input { dock: bottom; height: 1; border: none; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"sort({number - 1})", show=False) for number in range(1, COLUMNS + 1)),
        Binding("slash", "filter", show=False, priority=True),  # before the next key is handled
        Binding("escape", "leave", show=False),
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.broken: Exception | None = None
        self._source = source
        self._choice = Choice()
        self._link = Link()
        self._view: View | None = None
        self._lines: list[Line] = []  # as shown
        self._row = 0  # of the cursor, while the table is built again
        self._opened: str | None = None  # the key of the watch whose details are shown
        self._look_now = asyncio.Event()
        self._name_width = 0  # characters
        self._headings = headings(())

    def compose(self) -> ComposeResult:
        yield Static(id="place", markup=False)
        yield Static(id="link", markup=False)
        yield Static(id="headline", markup=False)
        yield Static(id="part", markup=False)
        yield Static(id="trust", markup=False)
        yield Static(id="notes", markup=False)
        yield DataTable[Text](id="watches", cursor_type="row", zebra_stripes=False)
        yield Static(id="controllers", markup=False)
        yield Static(id="clients", markup=False)
        detail = VerticalScroll(Static(id="detail-text", markup=False), id="detail")
        detail.display = False
        yield detail
        yield Static(KEYS_HELP, id="keys", markup=False)
        field = Input(placeholder="part of a name or a condition", id="filter")
        field.display = False
        yield field

    def on_mount(self) -> None:
        self._draw_headings()
        self._table.focus()
        self.run_worker(self._follow(), exit_on_error=False)

    # Fetching

    async def _follow(self) -> None:
        """Fetch and draw the view periodically; an error that cannot pass ends the screen."""
        try:
            while True:
                await self._look()
                self._draw()
                await self._pause()
        except Exception as error:  # noqa: BLE001 - printed after the screen has closed
            self.broken = error
            self.exit()

    async def _pause(self) -> None:
        """Wait for the next look, which comes at once if details were opened."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._look_now.wait()
        self._look_now.clear()

    async def _look(self) -> None:
        try:
            self._view = await self._source.view()
            if self._opened is not None:
                self._show_details(self._opened, await self._source.details(self._opened))
            self._link = Link()
        except ConnectError as error:
            self._link = self._link.failed(str(error), time.time())

    # Sorting and filtering

    def action_sort(self, column: int) -> None:
        self._choice = self._choice.sorted_by(column)
        self._draw_headings()
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ignore the filter key while the user types into the filter, and what changes the table while it is hidden."""
        ignored = action == "filter" and self._filter.has_focus
        ignored = ignored or (action in ("filter", "sort") and self._opened is not None)
        return super().check_action(action, parameters) and not ignored

    def action_filter(self) -> None:
        self._filter.display = True
        self.screen.set_focus(self._filter)  # at once, so that no typed key is lost

    def action_leave(self) -> None:
        """Close the details; without them, clear the filter."""
        if self._opened is not None:
            self._open(None)
        else:
            self._filter.value = ""
            self.on_input_submitted()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._choice = self._choice.containing(event.value)
        self._draw()

    def on_input_submitted(self) -> None:
        """Return the keys to the table; a filter with text stays visible."""
        self._filter.display = bool(self._filter.value)
        self._table.focus()

    # Details

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the details of a watch; they are fetched with the next view."""
        if event.cursor_row < len(self._lines):
            line = self._lines[event.cursor_row]
            self._open(key_of(line.watch, line.apiserver))
            self._look_now.set()

    def _open(self, key: str | None) -> None:
        self._opened = key
        self._detail_text.update("…")
        self.query_one("#detail").display = key is not None
        self._table.display = key is None
        self._show_tables()
        self.query_one("#keys", Static).update(KEYS_HELP if key is None else DETAIL_HELP)
        (self._table if key is None else self.query_one("#detail")).focus()

    def _show_details(self, key: str, found: Sequence[WatchDetail]) -> None:
        if key == self._opened:  # it may have been closed while the answer was on its way
            self._detail_text.update(written(found[0]) if found else GONE)

    @property
    def _detail_text(self) -> Static:
        return self.query_one("#detail-text", Static)

    # Drawing

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    @property
    def _filter(self) -> Input:
        return self.query_one(Input)

    def _draw_headings(self) -> None:
        """Rebuild the columns, with a mark at the heading that sorts."""
        self._row = self._row or self._table.cursor_row
        self._table.clear(columns=True)
        for number, heading in enumerate((*self._headings, "CONDITION")):
            mark = ("▼" if self._choice.descending else "▲") if number == self._choice.column else " "
            left = number in (NAME_COLUMN, CONDITION_COLUMN)
            self._table.add_column(Text(f"{heading}{mark}", justify="left" if left else "right"))

    def _draw(self) -> None:
        view, now = self._view, time.time()
        lines = self._choice.of(view.lines) if view else []
        self._show_text("place", [f"watchslo top: {self._place(view)}"])
        self._show_text("link", [self._link.status(view, now)])
        self._show_text("headline", [view.verdict or NOT_YET] if view else [])
        self._show_text("part", [part_note(view.part, view.elsewhere)] if view else [])
        self._show_text("trust", [view.trust] if view and view.trust else [])
        self._show_text("notes", first_of((*view.causes, *unready(view), *problems(view))) if view else [])
        self._show_tables()
        self._fill(lines)

    def _show_tables(self) -> None:
        """Show the tables below the watches that have rows, but not below the details of one."""
        view = self._view if self._opened is None else None
        for name, table in (
            ("controllers", draw_reactions(view.reactions if view else ())),
            ("clients", draw_clients(view.clients if view else ())),
        ):
            widget = self.query_one(f"#{name}", Static)
            widget.display = bool(table.row_count)
            widget.update(table)

    def _place(self, view: View | None) -> str:
        if view is None:
            return self._source.place
        place = self._source.place
        cluster = None if isinstance(self._source, Measurement) else view.cluster  # its place names the context
        return "   ".join(filter(None, (cluster, view.part, place, clock(view.at_wall))))

    def _show_text(self, name: str, sentences: Iterable[str]) -> None:
        """Show one sentence per line in the named widget; hide it without sentences."""
        text = "\n".join(filter(None, sentences))
        widget = self.query_one(f"#{name}", Static)
        widget.display = bool(text)
        widget.update(Text(text))

    def _fill(self, lines: list[Line]) -> None:
        """Update the rows in place, so that the scroll position stays. The cursor stays on its watch, or at the top."""
        place = self._place_of_cursor(lines)
        self._lines = lines
        table, width = self._table, max(LEAST_NAME, self.size.width - FIGURES_WIDTH)
        shown = width, headings(lines)
        if shown != (self._name_width, self._headings):
            self._name_width, self._headings = shown
            self._draw_headings()  # with columns that may be narrower
        for number in range(table.row_count, len(lines)):
            table.add_row(*(Text() for _ in range(COLUMNS)), key=str(number))
        for number in range(len(lines), table.row_count):
            table.remove_row(str(number))
        for row, line in enumerate(lines):
            for column, text in enumerate((shortened(line.name, width), *figures(line), status(line))):
                left = column in (NAME_COLUMN, CONDITION_COLUMN)
                self._write(row, column, Text(text, style(line), justify="left" if left else "right"))

        if place is not None:
            table.move_cursor(row=place, scroll=False)

    def _place_of_cursor(self, lines: list[Line]) -> int | None:
        """Return the new row of the watch under the cursor; None if it is at the top, or the watch is not shown."""
        row = self._row or self._table.cursor_row
        self._row = 0
        if not 0 < row < len(self._lines):
            return None
        chosen = self._lines[row]
        same = (n for n, line in enumerate(lines) if (line.watch, line.apiserver) == (chosen.watch, chosen.apiserver))
        return next(same, None)

    def _write(self, row: int, column: int, cell: Text) -> None:
        """Write a cell. Columns only become wider: narrowing one requires measuring all of its cells."""
        table, place = self._table, Coordinate(row, column)
        shown = table.get_cell_at(place)
        if shown != cell or shown.style != cell.style:  # texts with different styles compare equal
            wider = cell.cell_len > table.ordered_columns[column].content_width
            table.update_cell_at(place, cell, update_width=wider)
