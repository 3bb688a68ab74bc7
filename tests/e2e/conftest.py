"""What several of these tests share."""

from collections.abc import Iterator

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override


@pytest.fixture(scope="session")
def mortal_plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that may be killed, and keeps its events in an etcd of their own."""
    folder = tmp_path_factory.mktemp("mortal")
    with Etcd(folder, assets.etcd) as etcd, Etcd(folder, assets.etcd, "second") as second:
        flags = [override("/events", second.url)]
        with ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags) as plane:
            yield plane
