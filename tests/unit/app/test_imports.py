"""Modules that a daemon without the page does not load: each costs memory on every node."""

import json
import subprocess
import sys

from watchslo.app.imports import hidden

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
