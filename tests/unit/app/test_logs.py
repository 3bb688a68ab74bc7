"""What libraries log becomes events like ours: one line each, without tracebacks and without values."""

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


def test_a_complaint_is_one_event_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json", "info")
    try:
        int("secret")
    except ValueError as error:
        complain(error, "Exception in %s\n", "task")
    event = json.loads(capsys.readouterr().err)
    assert event.pop("timestamp")
    assert event.pop("error").startswith("ValueError in test_a_complaint_is_one_event_without_values:")
    assert event == {
        "event": "library_complains",
        "level": "error",
        "logger": "library",
        "message": "Exception in task",
    }


def test_only_the_first_line_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json", "info")
    complain(None, "Task was destroyed but it is pending!\ntask: <Task secret>")
    assert "secret" not in capsys.readouterr().err


def test_what_we_cancelled_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json", "info")
    complain(asyncio.CancelledError(), "Exception in ASGI application\n")
    assert capsys.readouterr().err == ""


def test_our_level_holds_for_libraries_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("console", "critical")
    complain(None, "nobody asked")
    assert capsys.readouterr().err == ""


def test_only_terminals_get_colours(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("console", "info")
    structlog.get_logger().info("listening", url="here")
    said = capsys.readouterr().err
    assert "listening" in said
    assert "\x1b" not in said
