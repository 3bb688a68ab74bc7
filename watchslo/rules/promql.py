"""PromQL, put together from parts."""

import json
import re
from collections.abc import Iterable

LONG = 100  # characters of a vector
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")


def quoted(text: str) -> str:
    """A string literal: JSON's escapes are among those of PromQL."""
    return json.dumps(text, ensure_ascii=False)


def select(metric: str, *matchers: str) -> str:
    """The series of a metric that match; empty matchers are left out."""
    told = ",".join(filter(None, matchers))
    return f"{metric}{{{told}}}" if told else metric


def one_of(label: str, values: Iterable[str], *, negated: bool = False) -> str:
    """A matcher of these values, or of all others."""
    pattern = "|".join(_SPECIAL.sub(r"\\\1", value) for value in sorted(values))
    return f"{label}{'!~' if negated else '=~'}{quoted(pattern)}"


def by(operation: str, labels: Iterable[str], vector: str) -> str:
    """An aggregation that keeps these labels; a long vector gets lines of its own."""
    kept = f"{operation} by ({', '.join(labels)}) "
    return kept + (_enclosed(vector) if "\n" in vector or len(vector) > LONG else f"({vector})")


def joined(operator: str, parts: Iterable[str]) -> str:
    """Parts of which all (`and`) or any (`or`) are to hold, each on lines of its own."""
    given = tuple(parts)
    return given[0] if len(given) == 1 else f"\n{operator}\n".join(_operand(part) for part in given)


def _operand(part: str) -> str:
    return _enclosed(part) if "\n" in part else part


def _enclosed(vector: str) -> str:
    lines = "\n".join(f"  {line}" for line in vector.splitlines())
    return f"(\n{lines}\n)"


def number(value: float) -> str:
    """A number without noise in its last digits."""
    return f"{value:.9g}"
