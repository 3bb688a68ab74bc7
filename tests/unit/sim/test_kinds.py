import pytest

from watchslo.sim.kinds import BUILT_IN, age, human_duration, timestamp


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (246, "4m6s"),
        (660, "11m"),
        (3 * 3600 + 1200, "3h20m"),
        (9 * 3600, "9h"),
        (50 * 3600, "2d2h"),
        (20 * 86400, "20d"),
    ],
)
def test_human_duration_matches_kubectl(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_age_counts_from_creation() -> None:
    assert age({"metadata": {"creationTimestamp": timestamp(1000.9)}}, 1005.0) == "5s"
    assert age({"metadata": {}}, 1005.0) == "<unknown>"


def test_timestamps_are_whole_seconds() -> None:
    assert timestamp(1_800_000_000.999) == "2027-01-15T08:00:00Z"


def test_every_kind_builds_a_row_for_an_empty_object() -> None:
    for kind in BUILT_IN.values():
        cells = [column.cell({"metadata": {}}, 0.0) for column in kind.columns]
        assert len(cells) >= 2


def test_pod_row_shows_the_columns_of_kubectl() -> None:
    pod = {
        "metadata": {"name": "a", "creationTimestamp": timestamp(0)},
        "spec": {"containers": [{}, {}], "nodeName": "n1"},
        "status": {"phase": "Running", "containerStatuses": [{"ready": True}, {"ready": False}]},
    }
    cells = [column.cell(pod, 5.0) for column in BUILT_IN["pods"].columns]
    assert cells == ["a", "1/2", "Running", "0", "5s", "<none>", "n1", "<none>", "<none>"]


def test_object_key_includes_the_namespace_if_namespaced() -> None:
    assert BUILT_IN["pods"].object_key("default", "a") == "default/a"
    assert BUILT_IN["nodes"].object_key(None, "n1") == "n1"
