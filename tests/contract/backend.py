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
    simulated: bool
    watch_list: bool
    """It supports `sendInitialEvents`: on by default in 1.32, and since 1.34."""
    consistent_from_cache: bool
    """Consistent lists come from the watch cache (since 1.31)."""
    pages_from_cache: bool
    """Pages and exact revisions come from the watch cache (since 1.34)."""
    refuses_unready: bool
    """It answers 429 while a cache is being filled (since 1.31). Before, such requests wait or go to etcd."""

    dispatch_metrics: bool = False
    """It counts how long events take within it, and all lists in one family (since 1.37)."""

    may_refuse_behind: bool = False
    """It has a gate to answer 429, and not to ask etcd, if a cache is behind (since 1.37); on in a split cluster."""

    def __str__(self) -> str:
        return self.name

    @property
    def minor(self) -> str:
        """Its minor version, such as `1.36`."""
        return self.version.removeprefix("v").rstrip(".")


CURRENT = Backend(
    "kube-apiserver-1.36",
    version="v1.36.",
    simulated=False,
    watch_list=True,
    consistent_from_cache=True,
    pages_from_cache=True,
    refuses_unready=True,
)
OLD = Backend(
    "kube-apiserver-1.30",
    version="v1.30.",
    simulated=False,
    watch_list=False,
    consistent_from_cache=False,
    pages_from_cache=False,
    refuses_unready=False,
)
NEWEST = replace(CURRENT, name="kube-apiserver-1.37", version="v1.37.", dispatch_metrics=True, may_refuse_behind=True)
MIDDLE = replace(CURRENT, name="kube-apiserver-1.33", version="v1.33.", watch_list=False, pages_from_cache=False)
OLDEST = replace(OLD, name="kube-apiserver-1.28", version="v1.28.")


SIMULATOR = replace(CURRENT, name="simulator", simulated=True, pages_from_cache=False)


BACKENDS = (SIMULATOR, CURRENT, OLD)
EVERY_VERSION = (SIMULATOR, NEWEST, CURRENT, MIDDLE, OLD, OLDEST)
"""For `make versions`."""


def only(where: Callable[[Backend], bool], reason: str) -> pytest.MarkDecorator:
    """Mark a test that holds for some backends; the summary gives `reason` for the others."""
    return pytest.mark.only(where, reason)


def real(reason: str) -> pytest.MarkDecorator:
    """Mark a test that holds for real apiservers only; the summary gives `reason` for simulated ones."""
    return only(lambda backend: not backend.simulated, reason)
