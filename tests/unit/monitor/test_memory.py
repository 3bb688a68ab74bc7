from collections.abc import Callable, Iterator

import pytest

from watchslo.monitor.tasks import memory
from watchslo.monitor.tasks.memory import GROWN_BYTES, TRIM_SECONDS, HeapTrimmer

START = 100 * 2**20


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that counts the trims while a trimmer is called at the given sizes; a trim frees a MiB.

    The calls follow each other by `every` seconds.
    """

    def count(*sizes: int, every: float = TRIM_SECONDS) -> int:
        trimmed: list[int] = []
        trimmer = HeapTrimmer()
        now: Iterator[int] = iter(())
        monkeypatch.setattr(memory, "_TRIM", trimmed.append)
        monkeypatch.setattr(memory, "resident_bytes", lambda: next(now))
        for turn, size in enumerate(sizes):
            now = iter((size, size - 2**20))
            trimmer.trim_if_grown(turn * every)
        assert set(trimmed) == {0}
        return len(trimmed)

    return count


def test_resident_memory_is_read_from_the_kernel() -> None:
    assert memory.resident_bytes() > 2**20


def test_heap_is_trimmed_by_glibc() -> None:
    HeapTrimmer().trim_if_grown(0.0)


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([START], 1),
        ([START, START, START + GROWN_BYTES - 2**20], 1),
        ([START, START + GROWN_BYTES], 2),
        ([START, START // 2, START // 2 + GROWN_BYTES + 1], 2),
    ],
    ids=["at first", "hardly grown", "grown", "grown since the least memory"],
)
def test_heap_is_trimmed_only_after_it_has_grown(trims: Callable[..., int], sizes: list[int], count: int) -> None:
    assert trims(*sizes) == count


def test_heap_is_trimmed_once_in_a_minute(trims: Callable[..., int]) -> None:
    grown = [START + turn * 2 * GROWN_BYTES for turn in range(13)]
    assert trims(*grown, every=TRIM_SECONDS / 6) == 3


def test_nothing_is_trimmed_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_TRIM", None)
    monkeypatch.setattr(memory, "resident_bytes", lambda: pytest.fail("there is no need to know"))
    HeapTrimmer().trim_if_grown(0.0)
