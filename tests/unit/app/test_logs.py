"""Log records of libraries become events of watchslo: one line each, without tracebacks and values."""

import asyncio
import errno
import io
import json
import logging
import sys
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


class FullDisk(io.StringIO):
    """Fails while it is `full`, at each write or only at each flush."""

    def __init__(self, *, at_flush: bool) -> None:
        super().__init__()
        self.full = True
        self._at_flush = at_flush

    def write(self, text: str) -> int:
        if self.full and not self._at_flush:
            raise BrokenPipeError
        return super().write(text) if not self.full else len(text)

    def flush(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("at_flush", [False, True])
def test_log_that_cannot_be_written_is_counted_and_not_raised(
    monkeypatch: pytest.MonkeyPatch, *, at_flush: bool
) -> None:
    stderr = FullDisk(at_flush=at_flush)
    monkeypatch.setattr(sys, "stderr", stderr)
    logs.set_up("json", "info")
    log = structlog.get_logger()
    for _ in range(3):
        log.info("lost")
    stderr.full = False
    log.info("written")
    assert {"event": "written", "lost_lines": 3}.items() <= json.loads(stderr.getvalue()).items()


def test_closed_log_does_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    logs.set_up("console", "info")
    stderr.close()
    structlog.get_logger().info("lost")
    complain(None, "lost too")
