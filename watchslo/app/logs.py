"""The log: one event a fact on stderr, as JSON for machines or coloured for people."""

import asyncio
import logging
import sys
from typing import Literal

import structlog

from watchslo.errors import whereabouts


def set_up(form: Literal["json", "console"], level: str) -> None:
    """Sets the form and the least level of everything that is logged from now on."""
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
    """What libraries complain of, as our events: where an error was raised, but neither its values nor its trace."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError):
            return  # that was us: we are shutting down
        message = record.getMessage().strip().partition("\n")[0]  # below the first line asyncio shows values
        facts = {"error": whereabouts(error)} if error else {}
        structlog.get_logger().log(record.levelno, "library_complains", logger=record.name, message=message, **facts)
