"""The log: one event per line on stderr, as JSON for machines or in colour for people."""

import asyncio
import logging
import sys
from typing import Literal

import structlog

from watchslo.errors import error_location


def set_up(form: Literal["json", "console"], level: str) -> None:
    """Set the format and the lowest level of all log output from now on."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(sort_keys=False, colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
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
