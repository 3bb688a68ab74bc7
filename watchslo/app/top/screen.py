"""The screen of `watchslo top`; the only part that needs textual."""

import asyncio
import signal
import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable, Input, Static

from watchslo.app.hints import troubles, unready
from watchslo.app.table import HEADINGS, STYLES, figures, headline, says
from watchslo.app.top.choice import Choice, Link, clock
from watchslo.app.top.sources import Source
from watchslo.app.view import Line, View
from watchslo.errors import ConnectError

LOOK_SECONDS = 1.0
MOST_NOTES = 5  # or they would leave no room for the table
COLUMNS = (*HEADINGS[:-1], "VERDICT")
NAME_COLUMN, VERDICT_COLUMN = 0, len(COLUMNS) - 1
FIGURES_WIDTH = 64  # of all columns but the names, with what is between them
LEAST_NAME = 20  # characters; where there is no room even for these, figures have to be scrolled to
KEYS_HELP = f"q quit   / filter   ↑↓ scroll   1-{len(COLUMNS)} sort by that column, again to turn it round"


def first_of(notes: Sequence[str]) -> list[str]:
    """The gravest sentences, and how many more there are."""
    if len(notes) <= MOST_NOTES:
        return list(notes)
    return [*notes[: MOST_NOTES - 1], f"… and {len(notes) - MOST_NOTES + 1} more such."]


def shortened(name: str, room: int) -> str:
    """A name as long as there is room: it begins with the resource, and ends with the apiserver."""
    if len(name) <= room:
        return name
    end = (room - 1) // 3
    return f"{name[: room - 1 - end]}…{name[-end:]}"


async def show(source: Source) -> None:
    """Shows a source until somebody quits; raises what ended it otherwise."""
    async with source:
        app = Top(source)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, app.exit)  # else the terminal would stay as it is
        try:
            await app.run_async(mouse=False)  # text can be selected as ever
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
    Input { dock: bottom; height: 1; border: none; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"sort({number - 1})", show=False) for number in range(1, len(COLUMNS) + 1)),
        Binding("slash", "filter", show=False, priority=True),  # before the next key has found its way
        Binding("escape", "clear_filter", show=False),
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
        self._room = 0  # for names, in characters

    def compose(self) -> ComposeResult:
        yield Static(id="place", markup=False)
        yield Static(id="link", markup=False)
        yield Static(id="headline", markup=False)
        yield Static(id="trust", markup=False)
        yield Static(id="notes", markup=False)
        yield DataTable[Text](id="watches", show_cursor=False, zebra_stripes=False)
        yield Static(KEYS_HELP, id="keys", markup=False)
        field = Input(placeholder="a part of a name, or of a verdict", id="filter")
        field.display = False
        yield field

    def on_mount(self) -> None:
        self._head()
        self._table.focus()
        self.run_worker(self._follow(), exit_on_error=False)

    # What is known

    async def _follow(self) -> None:
        """Asks again and again; what can never be mended ends the screen."""
        try:
            while True:
                await self._look()
                self._draw()
                await asyncio.sleep(LOOK_SECONDS)
        except Exception as error:  # noqa: BLE001 - a screen has no place for it: it is said when that is gone
            self.broken = error
            self.exit()

    async def _look(self) -> None:
        try:
            self._view = await self._source.view()
            self._link = Link()
        except ConnectError as error:
            self._link = self._link.failed(str(error), time.time())

    # What is chosen

    def action_sort(self, column: int) -> None:
        self._choice = self._choice.sorted_by(column)
        self._head()
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is typed into the filter is no command."""
        return super().check_action(action, parameters) and not (action == "filter" and self._filter.has_focus)

    def action_filter(self) -> None:
        self._filter.display = True
        self.screen.set_focus(self._filter)  # at once: nothing that is typed may be lost

    def action_clear_filter(self) -> None:
        self._filter.value = ""
        self.on_input_submitted()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._choice = self._choice.containing(event.value)
        self._draw()

    def on_input_submitted(self) -> None:
        """Keys are commands again; the filter stays, and what it says."""
        self._filter.display = bool(self._filter.value)
        self._table.focus()

    # What is drawn

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    @property
    def _filter(self) -> Input:
        return self.query_one(Input)

    def _head(self) -> None:
        """The headings anew, with a mark at the one that sorts."""
        self._table.clear(columns=True)
        for number, heading in enumerate(COLUMNS):
            mark = ("▼" if self._choice.descending else "▲") if number == self._choice.column else " "
            left = number in (NAME_COLUMN, VERDICT_COLUMN)
            self._table.add_column(Text(f"{heading}{mark}", justify="left" if left else "right"))

    def _draw(self) -> None:
        view, now = self._view, time.time()
        lines = self._choice.of(view.lines) if view else []
        self._tell("place", [f"watchslo top: {self._place(view)}"])
        self._tell("link", [self._link.says(view, now)])
        self._tell("headline", [view.verdict or headline(view.lines)] if view else [])
        self._tell("trust", [view.trust] if view and view.trust else [])
        self._tell("notes", first_of((*view.causes, *unready(view), *troubles(view))) if view else [])
        self._fill(lines)

    def _place(self, view: View | None) -> str:
        if view is None:
            return self._source.place
        return "   ".join(filter(None, (view.cluster, self._source.place, clock(view.at_wall))))

    def _tell(self, name: str, sentences: Iterable[str]) -> None:
        """Shows sentences, one a line; without any it takes no room."""
        said = "\n".join(filter(None, sentences))
        place = self.query_one(f"#{name}", Static)
        place.display = bool(said)
        place.update(Text(said))

    def _fill(self, lines: list[Line]) -> None:
        """Brings the rows up to date where they stand, so that nothing scrolls away from under somebody's eyes."""
        table, room = self._table, max(LEAST_NAME, self.size.width - FIGURES_WIDTH)
        if room != self._room:
            self._room = room
            self._head()  # with columns that may be narrower
        for number in range(table.row_count, len(lines)):
            table.add_row(*(Text() for _ in COLUMNS), key=str(number))
        for number in range(len(lines), table.row_count):
            table.remove_row(str(number))
        for row, line in enumerate(lines):
            for column, text in enumerate((shortened(line.name, room), *figures(line), says(line))):
                left = column in (NAME_COLUMN, VERDICT_COLUMN)
                self._write(row, column, Text(text, STYLES[line.verdict], justify="left" if left else "right"))

    def _write(self, row: int, column: int, cell: Text) -> None:
        """Columns only become wider: to find out how narrow one could be, all of its cells are measured."""
        table, place = self._table, Coordinate(row, column)
        shown = table.get_cell_at(place)
        if shown != cell or shown.style != cell.style:  # a style is no part of what makes two of them equal
            wider = cell.cell_len > table.ordered_columns[column].content_width
            table.update_cell_at(place, cell, update_width=wider)
