"""The apiservers that the contract holds for, and what each does its own way: data, so that tests need no version."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest


@dataclass(frozen=True, slots=True)
class Backend:
    """One kind of apiserver."""

    name: str
    version: str
    """How that begins which it says of itself."""
    control_plane: str
    """The fixture that runs it, where it is real."""
    simulated: bool
    watch_list: bool
    """`sendInitialEvents` is known: beta and on since 1.32."""
    serves_from_cache: bool
    """Consistent lists, pages and exact revisions come from the watch cache: since 1.31, and 1.34 for all of it."""
    refuses_unready: bool
    """A cache that is being filled means 429: since 1.31. Before, such requests wait or go to etcd."""

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
    """Marks a test that holds for some backends; for the others the end of the run says `reason`."""
    return pytest.mark.only(where, reason)
