"""Builds PromQL expressions from parts."""

import json
import re
from collections.abc import Iterable

LONG_VECTOR = 100  # characters
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")


def quoted(text: str) -> str:
    """Return a string literal; PromQL accepts the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


def select(metric: str, *matchers: str) -> str:
    """Return a selector for a metric; empty matchers are left out."""
    selector = ",".join(filter(None, matchers))
    return f"{metric}{{{selector}}}" if selector else metric


def one_of(label: str, values: Iterable[str], *, negated: bool = False) -> str:
    """Return a matcher for these values, or for all other values if negated."""
    pattern = "|".join(_SPECIAL.sub(r"\\\1", value) for value in sorted(values))
    return f"{label}{'!~' if negated else '=~'}{quoted(pattern)}"


def by(operation: str, labels: Iterable[str], vector: str) -> str:
    """Return an aggregation that keeps these labels; a long vector is put on separate lines."""
    kept = f"{operation} by ({', '.join(labels)}) "
    return kept + (enclosed(vector) if "\n" in vector or len(vector) > LONG_VECTOR else f"({vector})")


def joined(operator: str, parts: Iterable[str]) -> str:
    """Join expressions by `and`, `or` or `unless`, each on separate lines."""
    given = tuple(parts)
    return given[0] if len(given) == 1 else f"\n{operator}\n".join(_operand(part) for part in given)


def _operand(part: str) -> str:
    return enclosed(part) if "\n" in part else part


def enclosed(vector: str) -> str:
    """Return a vector in parentheses, on separate lines."""
    lines = "\n".join(f"  {line}" for line in vector.splitlines())
    return f"(\n{lines}\n)"


def number(value: float) -> str:
    """Format a number with at most 9 significant digits."""
    return f"{value:.9g}"
