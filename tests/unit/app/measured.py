"""What `watchslo check` and `watchslo verify` print about clusters in memory."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.monitor.cluster import Cluster, line


@dataclass(frozen=True)
class Printed:
    """The exit code of a command, and what it printed on stdout and on stderr."""

    code: int
    text: str
    errors: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)

    @property
    def transcript(self) -> str:
        """The exit code and the text, without spaces at the ends of lines."""
        return "\n".join([f"exit code {self.code}", *map(str.rstrip, self.text.splitlines()), ""])


@dataclass(frozen=True)
class Case:
    """A cluster that is measured with these options and this configuration; a golden file holds the output."""

    options: Any
    prepare: Callable[[Cluster, pytest.MonkeyPatch], object] = lambda *_: None
    config: str = "{}"


def reorder(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each event, deliver an old one."""
    send = cluster.send
    monkeypatch.setattr(cluster, "send", lambda resource, content: send(resource, content + line("MODIFIED", 1)))
