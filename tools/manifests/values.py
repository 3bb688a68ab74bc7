"""The README of the chart: a table of its values, from the comments and defaults in values.yaml."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

INTRODUCTION = """\
# The chart of watchslo

watchslo measures how late the watch events of a Kubernetes cluster are. Its profiles, and how to install them:
[Run it in a cluster]({source}/deploy/README.md#helm). Generated from `values.yaml` by `make manifests`.

| value | default | meaning |
|---|---|---|
"""
KEY = re.compile(r"^(?P<indent> *)(?P<key>\w+):(?P<rest>.*)$")
COMMENT = re.compile(r"(?:^| )# (?P<text>.+)$")
PROFILES = "profiles"
"""The value whose keys are not listed one by one: they are defaults of the others."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the chart: its path, default and comment."""

    path: tuple[str, ...]
    default: Any
    meaning: str


def readme(text: str, source: str) -> str:
    """Return the page as Markdown; `source` is the address of the repository's files."""
    return INTRODUCTION.format(source=source) + "".join(_row(value) for value in values(text))


def values(text: str) -> Iterator[Value]:
    """Yield each value with the comment above it, or behind it, in the order of the file."""
    defaults = yaml.safe_load(text)
    path: tuple[str, ...] = ()
    above: list[str] = []
    for line in text.splitlines():
        if (found := KEY.match(line)) and path[:1] != (PROFILES,):
            path = (*path[: len(found["indent"]) // 2], found["key"])
            behind = COMMENT.search(found["rest"])
            yield Value(path, _at(defaults, path), " ".join([*above, *([behind["text"]] if behind else [])]))
        comment = COMMENT.match(line)
        above = [*above, comment["text"]] if comment else []


def _at(defaults: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        defaults = defaults[key]
    return defaults


def _row(value: Value) -> str:
    whole = isinstance(value.default, dict) and value.default
    default = "" if whole else f"`{json.dumps(value.default)}`"
    meaning = value.meaning.replace("|", r"\|")
    return f"| `{'.'.join(value.path)}` | {default} | {meaning} |\n"
