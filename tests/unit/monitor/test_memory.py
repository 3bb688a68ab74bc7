from collections.abc import Callable, Iterator

import pytest

from watchslo.monitor import memory
from watchslo.monitor.memory import GROWN_BYTES, HeapTrimmer

START = 100 * 2**20


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that counts the trims while a trimmer is called at the given sizes; a trim frees a MiB."""

    def count(*sizes: int) -> int:
        trimmed: list[int] = []
        trimmer = HeapTrimmer()
        now: Iterator[int] = iter(())
        monkeypatch.setattr(memory, "_TRIM", trimmed.append)
        monkeypatch.setattr(memory, "resident_bytes", lambda: next(now))
        for size in sizes:
            now = iter((size, size - 2**20))
            trimmer.trim_if_grown()
        assert set(trimmed) == {0}
        return len(trimmed)

    return count


def test_resident_memory_is_read_from_the_kernel() -> None:
    assert memory.resident_bytes() > 2**20


def test_heap_is_trimmed_by_glibc() -> None:
    HeapTrimmer().trim_if_grown()


def test_heap_is_trimmed_only_after_it_has_grown(trims: Callable[..., int]) -> None:
    assert trims(START) == 1
    assert trims(START, START, START + GROWN_BYTES - 2**20) == 1
    assert trims(START, START + GROWN_BYTES) == 2


def test_growth_counts_from_the_least_memory_since_the_last_trim(trims: Callable[..., int]) -> None:
    assert trims(START, START // 2, START // 2 + GROWN_BYTES + 1) == 2


def test_nothing_is_trimmed_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_TRIM", None)
    monkeypatch.setattr(memory, "resident_bytes", lambda: pytest.fail("there is no need to know"))
    HeapTrimmer().trim_if_grown()
