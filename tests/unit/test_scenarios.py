"""Tests of real processes say what happens and in which order, never how fast.

How fast a test machine is says nothing about the product: such a claim belongs to a fake clock. The contract is not
read here: there, a timeout is that of a watch, and apiservers may be too early, but never too late.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = ("e2e", "lab", "tools")
SCENARIOS = sorted(path for folder in FOLDERS for path in (TESTS / folder).rglob("*.py"))
CLOCKS = {"monotonic", "perf_counter", "time"}
TIME_OUT = "PATIENCE_SECONDS"


def claims(text: str) -> list[str]:
    """Return what the source of a scenario says about its own speed, with line numbers."""
    return [f"line {node.lineno}: {problem}" for node, problem in _found(ast.parse(text))]


def _found(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield from ((node, "an assertion reads a clock") for read in ast.walk(node) if _reads_a_clock(read))
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "timeout" and isinstance(keyword.value, ast.Constant):
                    yield keyword.value, f"a time-out of its own, instead of {TIME_OUT}"
        elif isinstance(node, ast.Attribute) and node.attr in ("timeout", "flaky") and _is_mark(node.value):
            yield node, "a mark about time or chance"


def _reads_a_clock(node: ast.AST) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return (
        isinstance(function, ast.Attribute)
        and function.attr in CLOCKS
        and isinstance(function.value, ast.Name)
        and function.value.id == "time"
    )


def _is_mark(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "mark"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: str(path.relative_to(TESTS)))
def test_scenario_claims_nothing_about_its_own_speed(path: Path) -> None:
    assert claims(path.read_text()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("assert time.monotonic() - began < 3", "line 1: an assertion reads a clock"),
        ("subprocess.run(command, timeout=5)", "line 1: a time-out of its own, instead of PATIENCE_SECONDS"),
        ("@pytest.mark.timeout(900)\ndef test(): ...", "line 1: a mark about time or chance"),
    ],
)
def test_claim_about_speed_is_found(text: str, problem: str) -> None:
    assert claims(text) == [problem]


@pytest.mark.parametrize(
    "text", ["began = time.time()", "subprocess.run(command, timeout=PATIENCE_SECONDS)", "assert samples > 3"]
)
def test_other_text_claims_nothing(text: str) -> None:
    assert claims(text) == []
