import pytest

from watchslo.clock.tick_share import sharing_instances


@pytest.mark.parametrize(
    ("ticked", "watched", "shards", "expected"),
    [
        (1, 1, 1, 1),  # the only apiserver
        (3, 3, 1, 1),  # each of three
        (3, 1, 1, 3),  # next to one of three
        (7, 1, 1, 7),
        (3, 2, 1, 2),  # two of three are listed: another instance watches the third
        (4, 1, 1, 4),  # a tunnel to one of three is a fourth address
        (3, 3, 3, 3),  # three shards
        (3, 3, 10, 3),  # more shards than apiservers: each shard needs a clock of its own
        (1, 1, 10, 1),
        (0, 1, 1, 1),  # all fail
    ],
)
def test_ticks_are_shared_with_the_instances_that_tick_too(
    ticked: int, watched: int, shards: int, expected: int
) -> None:
    assert sharing_instances(ticked, watched, shards) == expected
