"""What several end-to-end tests share: the order of the files, and a control plane that tests may kill."""

from collections.abc import Iterator

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override

LONGEST_FIRST = (
    *("test_storages.py", "test_image.py", "test_budget.py", "test_apiservers.py", "test_lab.py", "test_guarantees.py"),
    *("test_outages.py", "test_export.py", "test_watches.py", "test_first_minutes.py", "test_expiry.py"),
)
"""The processes of a lane share its files; a long file that starts last would delay the end of the lane."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(scope="session")
def killable_plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that tests may kill, with the events in a second etcd."""
    folder = tmp_path_factory.mktemp("killable")
    with Etcd(folder, assets.etcd) as etcd, Etcd(folder, assets.etcd, "second") as second:
        flags = [override("/events", second.url)]
        with ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags) as plane:
            yield plane
