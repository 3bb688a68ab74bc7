"""Only wanted lines are kept, however the page is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.own_metrics.pages import histogram, kept, started
from watchslo.own_metrics import line_filter
from watchslo.own_metrics.line_filter import LineFilter

OTHERS = histogram("apiserver_request_duration_seconds", 'verb="GET"', (1, 2, 3, 4)) * 20
ETCD = histogram("etcd_request_duration_seconds", 'operation="get"', (1, 2, 3, 4))
TEXT = (
    OTHERS
    + ETCD
    + 'apiserver_init_events_total{resource="a b"} 5\n'
    + started()
    + OTHERS.replace("request", "response")
)
WANTED = [line for line in TEXT.encode().split(b"\n") if line.startswith((b"etcd", b"apiserver_init", b"process"))]
KEPT = [line for line in WANTED if b"_count" not in line]


@given(st.integers(1, 6000))
def test_the_same_lines_are_kept_however_the_page_is_cut(piece: int) -> None:
    found = kept(TEXT, piece)
    assert found.lines == KEPT
    assert found.size == len(TEXT)


def test_last_line_without_newline_is_kept() -> None:
    assert kept(started().rstrip("\n")).lines == [b"process_start_time_seconds 1700000000.25"]


def test_piece_within_one_unwanted_family_is_not_split() -> None:
    found = LineFilter()
    found.feed(OTHERS.encode())
    assert found.lines == []


def test_piece_between_two_comments_is_looked_at() -> None:
    found = LineFilter()
    found.feed(started().encode() + b"# HELP something else\n")
    assert len(found.lines) == 1


def test_piece_that_begins_and_ends_alike_but_is_wanted_is_kept() -> None:
    found = LineFilter()
    found.feed(b'apiserver_init_events_total{resource="a"} 1\napiserver_init_events_total{resource="b"} 2\n')
    assert len(found.lines) == 2


def test_line_of_any_length_needs_bounded_memory() -> None:
    found = LineFilter()
    for _ in range(100):
        found.feed(b"x" * 64_000)
    assert len(found._rest) == line_filter.LONGEST_LINE_BYTES
    found.feed(b"\n" + started().encode())
    assert len(found.lines) == 1


def test_too_many_wanted_lines_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_filter, "MOST_KEPT_BYTES", 100)
    found = kept(ETCD)
    assert found.is_over
    assert sum(map(len, found.lines)) <= 100


@pytest.mark.parametrize("size", [7, 100])
def test_other_series_are_kept_on_request(size: int) -> None:
    text = b'# TYPE a gauge\na 1\nab{c="d"} 2\nb_count 3\nb_sum 4\na_end 5'
    found = LineFilter({b"a", b"b_sum", b"a_end"})
    for start in range(0, len(text), size):
        found.feed(text[start : start + size])
    found.finish()
    assert found.lines == [b"a 1", b"b_sum 4", b"a_end 5"]
