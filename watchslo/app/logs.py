"""The log: one event per line on stderr, as JSON for machines or in colour for people."""

import asyncio
import logging
import sys
from typing import Literal, TextIO, cast

import structlog

from watchslo.errors import error_location


class LastingStream:
    """Writes to stderr; what fails is counted in `lost` and not raised, because it must not stop the measurement.

    The reader of a pipe may end, and a disk may be full.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._fails = False

    def write(self, text: str) -> None:
        """Write a part of a line."""
        try:
            sys.stderr.write(text)
        except (OSError, ValueError):  # the latter if stderr is closed
            self._fails = True

    def flush(self) -> None:
        """End a line."""
        try:
            sys.stderr.flush()
        except (OSError, ValueError):
            self._fails = True
        self.lost += self._fails
        self._fails = False

    def note_lost(self, _: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Add to an event how many lines were lost before it."""
        return {**event, "lost_lines": self.lost} if self.lost else event


def set_up(form: Literal["json", "console"], level: str) -> None:
    """Set the format and the lowest level of all log output from now on."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(sort_keys=False, colors=sys.stderr.isatty())
    )
    stream = LastingStream()
    structlog.configure(
        processors=[
            stream.note_lost,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, stream)),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Libraries()], force=True)


class _Libraries(logging.Handler):
    """Logs warnings of libraries as events of watchslo: with the location of an error, without values or a trace."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError):
            return  # watchslo cancelled it: it is shutting down
        message = record.getMessage().strip().partition("\n")[0]  # asyncio shows values below the first line
        facts = {"error": error_location(error)} if error else {}
        structlog.get_logger().log(record.levelno, "library_complains", logger=record.name, message=message, **facts)
