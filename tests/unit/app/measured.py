"""What `watchslo check` and `watchslo verify` print about clusters in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.monitor.cluster import Cluster, line


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
