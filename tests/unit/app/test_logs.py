"""Log records of libraries become events of watchslo: one line each, without tracebacks and values."""

import asyncio
import contextlib
import json
import logging
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, TextIO

import pytest
import structlog

from tests.support.process import PATIENCE_SECONDS
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


Logged = Callable[..., str]


@pytest.fixture
def logged(capfd: pytest.CaptureFixture[str]) -> Logged:
    """Returns a function that returns what is logged."""

    def logged(write: Callable[[], object], form: Any = "json", level: str = "info") -> str:
        writer = logs.set_up(form, level)
        write()
        writer.finish(PATIENCE_SECONDS)
        return capfd.readouterr().err

    return logged


def test_library_error_is_one_event_without_values(logged: Logged) -> None:
    def fail() -> None:
        try:
            int("secret")
        except ValueError as error:
            complain(error, "Exception in %s\n", "task")

    event = json.loads(logged(fail))
    assert event.pop("timestamp")
    assert event.pop("error").startswith("ValueError in test_library_error_is_one_event_without_values.")
    assert event == {
        "event": "library_complains",
        "level": "error",
        "logger": "library",
        "message": "Exception in task",
    }


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_terminal_has_colours_unless_the_environment_refuses_them(
    no_color: str, logged: Logged, monkeypatch: pytest.MonkeyPatch, *, is_coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    terminal = SimpleNamespace(fileno=lambda: 2, isatty=lambda: True)
    monkeypatch.setattr(sys, "__stderr__", terminal)
    said = logged(lambda: complain(None, "Disk full"), form="console")
    assert ("\x1b[" in said) is is_coloured


def test_library_message_is_cut_after_its_first_line(logged: Logged) -> None:
    said = logged(lambda: complain(None, "Task was destroyed but it is pending!\ntask: <Task secret>"))
    assert "destroyed" in said
    assert "secret" not in said


def test_cancellation_is_not_logged(logged: Logged) -> None:
    assert logged(lambda: complain(asyncio.CancelledError(), "Exception in ASGI application\n")) == ""


def test_log_level_applies_to_libraries(logged: Logged) -> None:
    assert logged(lambda: complain(None, "a warning"), "console", "critical") == ""


def test_pipe_gets_no_colours(logged: Logged) -> None:
    said = logged(lambda: structlog.get_logger().info("listening", url="here"), "console")
    assert "listening" in said
    assert "\x1b" not in said


def fill(pipe: TextIO) -> None:
    """Write to a pipe until it takes no more."""
    os.set_blocking(pipe.fileno(), False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe.fileno(), b"\n" * select.PIPE_BUF)
    os.set_blocking(pipe.fileno(), True)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TextIO, TextIO]]:
    """The end of a pipe that a test reads, and stderr, which writes to it."""
    read, write = os.pipe()
    with os.fdopen(read) as reader, os.fdopen(write, "w") as stderr:
        monkeypatch.setattr(sys, "__stderr__", stderr)
        yield reader, stderr


def test_full_pipe_drops_and_counts_lines_and_stops_nothing(pipe: tuple[TextIO, TextIO]) -> None:
    reader, stderr = pipe
    fill(stderr)
    writer = logs.set_up("json", "info")
    log = structlog.get_logger()
    for number in range(logs.MOST_LINES + 3):
        log.info("waits", number=number)
    writer.finish(0.0)
    lines = (line for line in reader if line.strip())
    assert [json.loads(next(lines))["number"] for _ in range(logs.MOST_LINES)] == list(range(logs.MOST_LINES))
    log.info("written")
    assert {"event": "written", "lost_lines": 3}.items() <= json.loads(next(lines)).items()


def test_log_without_a_reader_is_counted_and_not_raised(pipe: tuple[TextIO, TextIO]) -> None:
    reader, stderr = pipe
    writer = logs.set_up("json", "info")
    log = structlog.get_logger()
    new_reader, new_writer = os.pipe()
    reader.close()
    for _ in range(3):
        log.info("lost")
    writer.finish(PATIENCE_SECONDS)
    os.dup2(new_writer, stderr.fileno())
    os.close(new_writer)
    log.info("written")
    with os.fdopen(new_reader) as reader:
        assert {"event": "written", "lost_lines": 3}.items() <= json.loads(reader.readline()).items()


def test_process_without_stderr_does_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "__stderr__", None)
    writer = logs.set_up("console", "info")
    structlog.get_logger().info("lost")
    complain(None, "lost too")
    writer.finish(PATIENCE_SECONDS)
    assert writer.lost == 2


@pytest.mark.parametrize("is_full", [False, True])
def test_process_ends_with_its_own_code(pipe: tuple[TextIO, TextIO], *, is_full: bool) -> None:
    reader, stderr = pipe
    if is_full:
        fill(stderr)
    program = "import structlog, sys, watchslo.app.logs as logs; logs.set_up('json', 'info');"
    ended = subprocess.run(
        [sys.executable, "-c", f"{program} structlog.get_logger().info('last'); sys.exit(3)"],
        stderr=stderr,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 3
    assert is_full or json.loads(reader.readline())["event"] == "last"
