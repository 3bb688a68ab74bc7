"""The apiservers that the contract holds for, and their differences as data, so that no test compares versions."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest


@dataclass(frozen=True, slots=True)
class Backend:
    """One kind of apiserver."""

    name: str
    version: str
    """The beginning of the version that it reports."""
    control_plane: str
    """The fixture that runs it, if it is real."""
    simulated: bool
    watch_list: bool
    """It supports `sendInitialEvents`: beta and on by default since 1.32."""
    serves_from_cache: bool
    """Consistent lists (since 1.31), pages and exact revisions (since 1.34) come from the watch cache."""
    refuses_unready: bool
    """It answers 429 while a cache is being filled (since 1.31). Before, such requests wait or go to etcd."""

    def __str__(self) -> str:
        return self.name


CURRENT = Backend(
    "kube-apiserver-1.36",
    version="v1.36.",
    control_plane="control_plane",
    simulated=False,
    watch_list=True,
    serves_from_cache=True,
    refuses_unready=True,
)
OLD = Backend(
    "kube-apiserver-1.30",
    version="v1.30.",
    control_plane="old_control_plane",
    simulated=False,
    watch_list=False,
    serves_from_cache=False,
    refuses_unready=False,
)
SIMULATED = replace(CURRENT, name="simulator-1.36", simulated=True)
SIMULATED_OLD = replace(OLD, name="simulator-1.30", simulated=True)
BACKENDS = (SIMULATED, SIMULATED_OLD, CURRENT, OLD)


def only(where: Callable[[Backend], bool], reason: str) -> pytest.MarkDecorator:
    """Mark a test that holds for some backends; the summary gives `reason` for the others."""
    return pytest.mark.only(where, reason)
