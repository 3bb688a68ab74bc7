"""The log: one event per line on stderr, as JSON for machines or in colour for people."""

import asyncio
import atexit
import logging
import os
import sys
import threading
from collections import deque
from typing import Literal, TextIO, cast

import structlog

from watchslo.errors import error_location

MOST_LINES = 1000  # that wait for the reader of the log
LAST_SECONDS = 2.0  # for the lines that wait at the end of the process
NO_DESCRIPTOR = -1


class LogWriter:
    """Writes lines from a thread of its own, because the reader of a pipe may end or hang, and a disk may be full.

    The measurement never waits for the log: a line is dropped if too many wait, or if it cannot be written. It is
    counted in `lost`. The thread ends with the process, also within a write.
    """

    def __init__(self, descriptor: int) -> None:
        self.lost = 0
        self._descriptor = descriptor
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        """Let the thread write a line."""
        with self._changed:
            if len(self._waiting) >= MOST_LINES:
                self.lost += 1
                return
            self._waiting.append(line.encode(errors="backslashreplace"))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Do nothing: structlog calls this after each line."""

    def finish(self, seconds: float = LAST_SECONDS) -> None:
        """Wait until all lines are written, but for `seconds` at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, seconds)

    def note_lost(self, _: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Add to an event how many lines were lost before it."""
        return {**event, "lost_lines": self.lost} if self.lost else event

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                line = self._waiting[0]
            is_written = self._write(line)
            with self._changed:
                self._waiting.popleft()
                self.lost += not is_written
                self._changed.notify_all()

    def _write(self, line: bytes) -> bool:
        """Write past the buffers of `sys.stderr`: a thread that holds their lock would let Python abort at the end."""
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:
            return False
        return True


def set_up(form: Literal["json", "console"], level: str) -> LogWriter:
    """Set the format and the lowest level of all log output from now on; return what writes it to stderr."""
    stderr = sys.__stderr__  # None if it was closed when the process started
    is_coloured = not os.environ.get("NO_COLOR") and stderr is not None and stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(sort_keys=False, colors=is_coloured)
    )
    writer = LogWriter(stderr.fileno() if stderr else NO_DESCRIPTOR)
    atexit.register(writer.finish)
    structlog.configure(
        processors=[
            writer.note_lost,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, writer)),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Libraries()], force=True)
    return writer


class _Libraries(logging.Handler):
    """Logs warnings of libraries as events of watchslo: with the location of an error, without values or a trace."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError):
            return  # watchslo cancelled it: it is shutting down
        message = record.getMessage().strip().partition("\n")[0]  # asyncio shows values below the first line
        facts = {"error": error_location(error)} if error else {}
        structlog.get_logger().log(record.levelno, "library_complains", logger=record.name, message=message, **facts)
