"""Where faults are made: what all lanes share, and a daemon of one lane with the way to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, Proxy, Simulator, config_file

OBJECTIVE = {"minutes": {"window": "10s", "minEvents": 5}}
"""Of every daemon: the shortest windows there may be, for nothing shrinks these."""
LATE_RESOURCE, FROZEN_RESOURCE = "configmaps", "secrets"
"""What the real apiserver reaches in etcd by a proxy of its own."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What all lanes share: a real control plane with the proxies to its storage, by resource, and a simulated one."""

    plane: ControlPlane
    storage: Mapping[str, Proxy]
    simulator: Simulator


@dataclass(frozen=True, slots=True)
class Place:
    """A daemon that watches, where its configuration is, and the proxy that it goes by, if it does."""

    cluster: str
    ground: Ground
    folder: Path
    watches: Sequence[Mapping[str, Any]]
    keys: Mapping[str, Any]
    daemon: Daemon
    proxy: Proxy | None

    @property
    def link(self) -> Proxy:
        assert self.proxy is not None, f"{self.cluster} has no proxy"
        return self.proxy

    def configure(self, *watches: Mapping[str, Any]) -> None:
        """Writes another configuration; it is in force within five seconds, if it makes sense."""
        configured(self.folder, watches, self.keys)


def configured(folder: Path, watches: Sequence[Mapping[str, Any]], keys: Mapping[str, Any]) -> Path:
    return config_file(folder, watch=[dict(watch) for watch in watches], objective=OBJECTIVE, **keys)
