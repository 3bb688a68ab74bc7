"""The order of the files of end-to-end tests."""

import pytest

LONGEST_FIRST = (
    *("test_storages.py", "test_image.py", "test_budget.py", "test_apiservers.py", "test_lab.py", "test_guarantees.py"),
    *("test_outages.py", "test_export.py", "test_watches.py", "test_first_minutes.py", "test_expiry.py"),
)
"""The processes of a lane share its files; a long file that starts last would delay the end of the lane."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
