import pytest

from watchslo.monitor import memory


def test_glibc_returns_its_holes() -> None:
    memory.give_back()


def test_others_have_nothing_to_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_TRIM", None)
    memory.give_back()


def test_what_is_free_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []
    monkeypatch.setattr(memory, "_TRIM", trimmed.append)
    memory.give_back()
    assert trimmed == [0]
