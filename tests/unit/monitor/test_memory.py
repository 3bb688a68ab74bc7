import pytest

from watchslo.monitor import memory


def test_trim_heap_works_with_glibc() -> None:
    memory.trim_heap()


def test_trim_heap_does_nothing_without_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_TRIM", None)
    memory.trim_heap()


def test_trim_heap_calls_malloc_trim(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []
    monkeypatch.setattr(memory, "_TRIM", trimmed.append)
    memory.trim_heap()
    assert trimmed == [0]
