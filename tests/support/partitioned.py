"""A control plane that keeps resources in several etcds, as large managed clusters do.

    with Partitioned(folder, assets, apart=("/pods", "/events")) as lab:
        config_file(folder, kubernetes=lab.kubernetes, watch=[...])
        lab.keep_apart("/pods", "/events", "/configmaps")  # restarts the apiservers one after the other

A resource that moves to another etcd has no objects there: nothing is copied.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.assets import Assets
from tests.support.control_plane import SERVICE_NAME, ControlPlane, Etcd, override
from tests.support.writer import Writer

APART_REVISIONS = 100  # between two new etcds: with equal revisions they would look like one for some seconds
FIRST_REVISIONS = 1000  # of the etcd that all resources are in at first: no other one reaches them in a test
APART = ("/pods", "/events", "coordination.k8s.io/leases")


class Partitioned:
    """`count` apiservers; each resource of `apart` (`/pods`, `apps/deployments`) has an etcd of its own."""

    def __init__(
        self,
        folder: Path,
        assets: Assets,
        *,
        apart: Sequence[str] = APART,
        count: int = 2,
        flags: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._assets = assets
        self._stack = contextlib.ExitStack()
        self._own: dict[str, Etcd] = {}
        self._apart = tuple(apart)
        self.main = Etcd(folder, assets.etcd)
        self.plane = ControlPlane(folder, assets.kube_apiserver, self.main, apiservers=count, flags=flags)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._stack = stack
            stack.enter_context(self.main)
            self.main.advance(FIRST_REVISIONS)
            self._add_overrides(self._apart)
            stack.enter_context(self.plane)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def keep_apart(self, *resources: str) -> None:
        """Keep exactly these resources in etcds of their own from now on: restart the apiservers one by one.

        Nothing happens if that is so already.
        """
        if self._apart == resources:
            return
        self._add_overrides(resources)
        for apiserver in self.plane.apiservers:
            apiserver.restart()

    def writer(self, number: int = 0) -> Writer:
        """Return an administrator's client of the apiserver with this number."""
        return self.plane.apiservers[number].writer(self.plane.token)

    @property
    def kubernetes(self) -> dict[str, Any]:
        """The entry `kubernetes` of a configuration that watches each apiserver."""
        return {
            "apiservers": [apiserver.url for apiserver in self.plane.apiservers],
            "tlsServerName": SERVICE_NAME,
            "witnesses": "none",
        }

    def _add_overrides(self, resources: Sequence[str]) -> None:
        self._apart = tuple(resources)
        for resource in resources:
            if resource not in self._own:
                name = f"etcd-of-{resource.replace('/', '-').strip('-')}"
                self._own[resource] = self._stack.enter_context(Etcd(self._folder, self._assets.etcd, name))
                self._own[resource].advance(APART_REVISIONS * len(self._own))
        flags = [override(resource, self._own[resource].url) for resource in resources]
        for apiserver in self.plane.apiservers:
            apiserver.add_flags(flags)
