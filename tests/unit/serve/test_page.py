"""The landing page: what it says in words, and that nothing shown can become markup."""

import base64
import hashlib
import math
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from tests.unit.serve import readings
from watchslo.serve import page
from watchslo.snapshot import Snapshot, StreamReading


def html(snapshot: Snapshot) -> str:
    return page.encode(snapshot).body.decode()


def cells(stream: StreamReading, **changes: object) -> list[str]:
    """The texts of the one row of a snapshot with one stream."""
    snapshot = replace(readings.SNAPSHOT, streams=(stream,), **changes)  # type: ignore[arg-type]
    body = html(snapshot).partition("<tbody>")[2].partition("</tbody>")[0]
    return [unescape(text) for text in re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", body)]


class Elements(HTMLParser):
    """Checks that elements are closed in order, and collects their names."""

    VOID = frozenset({"meta", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        self.names.append(tag)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.mark.parametrize("snapshot", [readings.SNAPSHOT, readings.EMPTY])
def test_is_well_formed_and_has_no_script(snapshot: Snapshot) -> None:
    assert "script" not in Elements(html(snapshot)).names


def test_its_policy_allows_its_own_style_and_nothing_else() -> None:
    style = re.search(r"<style>(.*?)</style>", html(readings.SNAPSHOT), re.DOTALL)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = page.encode(readings.SNAPSHOT).headers["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")


def test_a_row_says_it_all() -> None:
    assert cells(readings.TAIL) == [
        "pods",
        "pods",
        "service",
        "Watching",
        "12.3 ms",
        "62.5 ms",
        "10 ms to ∞",
        "120",
        "P99 < 1 s: met",
        "2023-11-14 21:56:40 the connection was reset",
    ]


def test_what_is_not_known_is_a_dash() -> None:
    row = cells(readings.IDLE)
    assert row[1] == "deployments.apps"
    assert row[3] == "Backoff (clock: pending)"
    assert row[4:9] == [page.ABSENT, page.ABSENT, page.ABSENT, "0", "P99 < 2 s: no events"]


def test_a_stall_is_said() -> None:
    assert cells(readings.STALLED)[3] == "Watching (stalled for 33.5 s)"
    assert '<td class="bad">Watching (stalled' in html(readings.SNAPSHOT)
    assert cells(readings.STALLED)[8] == "P99 < 1 s: unknown while stalled"
    assert cells(replace(readings.STALLED, stalled_for=0.5))[8] == "P99 < 1 s: met"
    assert cells(replace(readings.STALLED, membership="foreign"))[3] == "Watching (stalled for 33.5 s, clock: foreign)"


def test_nothing_happening_differs_from_nothing_heard() -> None:
    assert cells(replace(readings.IDLE, audit="idle"))[8] == "P99 < 2 s: no events, proven idle"
    assert cells(replace(readings.TAIL, audit="idle"))[8] == "P99 < 1 s: met"


def test_nothing_evaluated_yet() -> None:
    stream = replace(readings.TAIL, last_failure=None, track=replace(readings.TRACK, windows=()))
    row = cells(stream)
    assert row[4:] == [page.ABSENT, page.ABSENT, page.ABSENT, "0", "P99 < 1 s: no events", page.ABSENT]


def test_an_unresolved_quantile_is_below_the_round_trip() -> None:
    track = replace(readings.TRACK, windows=(readings.window("1m", 60.0, 9, resolved=False),))
    stream = replace(readings.TAIL, track=track)
    assert cells(stream)[4] == "below 1.7 ms"
    assert cells(stream, domains=())[4] == "unresolved"


def test_a_missed_objective_is_said() -> None:
    objective = replace(readings.TRACK.objective, threshold=0.05)
    stream = replace(readings.TAIL, track=replace(readings.TRACK, objective=objective))
    assert cells(stream)[8] == "P99 < 50 ms: missed"


def test_names_and_messages_stay_text() -> None:
    text = html(readings.SNAPSHOT)
    assert "<b>" not in text
    assert "&lt;b&gt;deployments.apps is forbidden" in text
    assert "my &quot;deploy\\ments&quot;" in text


def test_says_why_it_is_not_ready() -> None:
    assert "<li>the clock has not ticked yet</li><li>no stream has started</li>" in html(readings.EMPTY)
    assert "<p>Ready.</p>" in html(readings.SNAPSHOT)
    paused = replace(readings.SNAPSHOT, monitor=replace(readings.MONITOR, paused=True))
    assert "Paused by the configuration." in html(paused)


def test_the_surest_cause_is_the_headline() -> None:
    text = html(readings.SNAPSHOT)
    headline = text.partition('<p class="headline bad">')[2].partition("</p>")[0]
    assert headline.startswith("10.0.0.1:6443 hands out jobs 0.31 s after storage (P50);")
    assert "&lt;b&gt;as ever" in headline
    assert "cache_behind: high confidence, since 2023-11-14 22:12:30" in headline
    assert "<p>Look at the connection from 10.0.0.1:6443 to etcd.</p>" in text
    assert '<ul class="quiet"><li>The watch of jobs has said nothing for 33.5 s.' in text


def test_one_cause_has_no_list_of_others() -> None:
    text = html(replace(readings.SNAPSHOT, causes=(readings.BEHIND,)))
    assert '<ul class="quiet">' not in text


def test_that_nothing_is_wrong_is_said_only_when_it_is_known() -> None:
    nothing = "Nothing is late that has a name."
    assert nothing in html(replace(readings.SNAPSHOT, causes=()))
    assert nothing not in html(readings.EMPTY)
    paused = replace(readings.SNAPSHOT, causes=(), monitor=replace(readings.MONITOR, paused=True))
    assert nothing not in html(paused)


def apiserver_cells(snapshot: Snapshot) -> list[list[str]]:
    body = html(snapshot).rpartition("<tbody>")[2].partition("</tbody>")[0]
    return [[unescape(t) for t in re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row)] for row in body.split("</tr>")[:-1]]


def test_each_apiserver_has_a_row() -> None:
    assert apiserver_cells(readings.SNAPSHOT) == [
        [
            "service",
            "v1.36.3",
            "2 of 2",
            "1.7 ms",
            "12.3 ms",
            "62.5 ms",
            "62.5 ms",
            "1.5 s",
            "95.5 s (pods)",
            "stalled_stream",
        ],
        [
            "10.0.0.1:6443",
            "v1.30.14+k3s1 (stands for 3)",
            "0 of 1",
            "<i>no answer came in time</i>",
            page.ABSENT,
            page.ABSENT,
            page.ABSENT,
            page.ABSENT,
            page.ABSENT,
            "cache_behind",
        ],
    ]


def test_an_apiserver_that_nobody_watches_is_not_blamed_for_that() -> None:
    service = replace(readings.SERVICE, watched=False, version=None, combined=None, alone=None)
    (row,) = apiserver_cells(replace(readings.SNAPSHOT, apiservers=(service,), streams=(), domains=(), causes=()))
    assert row == ["service", page.ABSENT, "not watched", *[page.ABSENT] * 7]


def test_a_history_that_is_too_short_is_marked() -> None:
    short = replace(readings.TAIL, history=replace(readings.HISTORY, list_seconds=100.0))
    marked = '<td class="number bad">95.5 s (pods)</td>'
    assert marked in html(replace(readings.SNAPSHOT, streams=(short,)))
    assert marked not in html(readings.SNAPSHOT)


def test_says_what_is_unproven() -> None:
    assert "Unproven through 10.0.0.1:6443: its storage is kine, not etcd" in html(readings.SNAPSHOT)


def test_is_titled_by_the_cluster() -> None:
    assert "<title>watchslo: prod-eu</title>" in html(readings.SNAPSHOT)
    assert "<title>watchslo</title>" in html(readings.EMPTY)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.00085, "0.85 ms"),
        (0.0123, "12.3 ms"),
        (0.99949, "999 ms"),
        (0.9995, "1 s"),
        (1.25, "1.25 s"),
        (99.94, "99.9 s"),
        (128.0, "128 s"),
        (math.inf, "∞"),
    ],
)
def test_durations_have_three_digits(seconds: float, text: str) -> None:
    assert page.duration(seconds) == text
