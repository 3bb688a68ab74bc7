"""Log records of libraries become events of watchslo: one line each, without tracebacks and values."""

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from watchslo.app import logs


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    structlog.reset_defaults()


def complain(error: BaseException | None, message: str, *values: object) -> None:
    logging.getLogger("library").error(message, *values, exc_info=error)


def test_library_error_is_one_event_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json", "info")
    try:
        int("secret")
    except ValueError as error:
        complain(error, "Exception in %s\n", "task")
    event = json.loads(capsys.readouterr().err)
    assert event.pop("timestamp")
    assert event.pop("error").startswith("ValueError in test_library_error_is_one_event_without_values:")
    assert event == {
        "event": "library_complains",
        "level": "error",
        "logger": "library",
        "message": "Exception in task",
    }


def test_library_message_is_cut_after_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json", "info")
    complain(None, "Task was destroyed but it is pending!\ntask: <Task secret>")
    assert "secret" not in capsys.readouterr().err


def test_cancellation_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json", "info")
    complain(asyncio.CancelledError(), "Exception in ASGI application\n")
    assert capsys.readouterr().err == ""


def test_log_level_applies_to_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("console", "critical")
    complain(None, "a warning")
    assert capsys.readouterr().err == ""


def test_pipe_gets_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("console", "info")
    structlog.get_logger().info("listening", url="here")
    said = capsys.readouterr().err
    assert "listening" in said
    assert "\x1b" not in said
