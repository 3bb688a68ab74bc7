"""The order of the files of end-to-end tests, and a control plane for one test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd

LONGEST_FIRST = (
    *(
        "test_pictures.py",
        "test_storages.py",
        "test_image.py",
        "test_budget.py",
        "test_apiservers.py",
        "test_lab.py",
        "test_guarantees.py",
    ),
    *("test_outages.py", "test_export.py", "test_watches.py", "test_first_minutes.py", "test_expiry.py"),
)
"""The processes of a lane share its files; a long file that starts last would delay the end of the lane."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture
def plane(tmp_path: Path, assets: Assets) -> Iterator[ControlPlane]:
    """A control plane that no other test uses."""
    with Etcd(tmp_path, assets.etcd) as etcd, ControlPlane(tmp_path, assets.kube_apiserver, etcd) as plane:
        yield plane
