"""Modules that a call does not load: each costs time, and in a daemon memory on every node."""

import json
import subprocess
import sys
from itertools import chain

import pytest

from watchslo.app.imports import hidden
from watchslo.cli import HEADINGS

RUN = """
import atexit, json, sys
from watchslo import cli
atexit.register(lambda: print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules}))))
cli.commands.main(["run", "--config", "/nonexistent/watchslo.yaml"], standalone_mode=False)
"""
UNNEEDED = {"fastapi", "opentelemetry", "rich", "pygments", "kubernetes_asyncio", "textual"}


def test_run_loads_no_module_that_only_the_page_or_a_terminal_needs() -> None:
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=False)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "watchslo.yaml" in done.stderr
    assert {"aiohttp", "starlette", "structlog", "uvicorn"} <= loaded
    assert not UNNEEDED & loaded


CALL = """
import atexit, json, sys
from watchslo import cli
atexit.register(lambda: print(json.dumps([name for name in sys.modules if name.startswith("watchslo.")])))
cli.main()
"""
EVERY_CALL = {"cli", "cli.command", "cli.exits", "errors"}
HELP = {*EVERY_CALL, "cli.options"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--version", EVERY_CALL),
        ("fly", EVERY_CALL),
        ("run --help", {*HELP, "cli.run"}),
        ("rules --shrink 0", {*HELP, "cli.rules"}),
        ("--help", {*HELP, *(f"cli.{name}" for name in chain(*HEADINGS.values()))}),
    ],
)
def test_help_and_refused_arguments_load_no_part_of_the_app_and_no_other_command(
    arguments: str, expected: set[str]
) -> None:
    call = [sys.executable, "-c", CALL, *arguments.split()]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    loaded = {name.removeprefix("watchslo.") for name in json.loads(done.stdout.splitlines()[-1])}
    assert loaded == expected


def test_hidden_module_cannot_be_imported_in_the_context_only() -> None:
    with hidden("this"):
        found = _imports("this")
    assert not found
    with hidden("json"):
        assert _imports("json")
    assert "this" not in sys.modules


def _imports(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True
