"""Where faults are made: the servers that all lanes share, and the daemon and the link of one lane."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, Proxy, Simulator, config_file

OBJECTIVE = {"minutes": {"window": "10s", "minEvents": 5}}
"""The objective of every daemon, with the shortest windows allowed: `--shrink` does not change these."""
LATE_RESOURCE, FROZEN_RESOURCE = "configmaps", "secrets"
"""The resources that the real apiserver reads from etcd through their own proxies."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The servers that all lanes share: a real control plane, its storage proxies by resource, and a simulator."""

    plane: ControlPlane
    storage: Mapping[str, Proxy]
    simulator: Simulator


@dataclass(frozen=True, slots=True)
class Place:
    """A daemon with its configuration, and the proxy to its apiserver if its lane is linked."""

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
        """Write another configuration; the daemon applies a valid one within five seconds."""
        configured(self.folder, watches, self.keys)


def configured(folder: Path, watches: Sequence[Mapping[str, Any]], keys: Mapping[str, Any]) -> Path:
    return config_file(folder, watch=[dict(watch) for watch in watches], objective=OBJECTIVE, **keys)
