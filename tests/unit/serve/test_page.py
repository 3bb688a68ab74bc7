"""The page: its texts, that no value can become markup, and that it loads its own files only."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from tests.unit.serve import readings
from watchslo.model import InstanceName
from watchslo.serve import page
from watchslo.snapshot import ApiserverRole, ShardReading, Snapshot, StreamReading, WindowVerdict
from watchslo.timeline.format import ABSENT
from watchslo.timeline.timeline import Timeline

PAGE_BYTES = 250_000


def html(snapshot: Snapshot) -> str:
    return page.encode(Timeline().observe(snapshot)).body.decode()


def rows(snapshot: Snapshot, table: str) -> list[list[str]]:
    """Return the texts of all cells of a table's body."""
    body = html(snapshot).partition(f'<table id="{table}">')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    return [[unescape(text) for text in re.findall(r"<t[hd][^>]*>([^<]*)", row)] for row in body.split("</tr>")[:-1]]


def cells(stream: StreamReading, **changes: object) -> list[str]:
    """Return the texts of the row of a snapshot with one watch."""
    (row,) = rows(replace(readings.SNAPSHOT, streams=(stream,), **changes), "watches")  # type: ignore[arg-type]
    return row


class Elements(HTMLParser):
    """Collects what is loaded and linked; nothing may have a style or a handler of its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


@pytest.mark.parametrize("snapshot", [readings.SNAPSHOT, readings.EMPTY])
def test_page_has_no_external_links_and_no_inline_script_or_style(snapshot: Snapshot) -> None:
    found = Elements(html(snapshot))
    assert "style" not in found.tags
    assert not [link for link in found.links if link.startswith(("http", "/"))]
    assert re.findall(r"<script[^>]*>(?!</script>)", html(snapshot)) == []


def test_page_loads_only_served_files() -> None:
    loaded = {link.removeprefix("page/") for link in Elements(html(readings.SNAPSHOT)).links if "page/" in link}
    assert loaded <= page.static().keys()
    modules = [document.body.decode() for name, document in page.static().items() if name.endswith(".js")]
    imported = {name for text in modules for name in re.findall(r'from "\./([\w.]+)"', text)}
    assert imported
    assert imported <= page.static().keys()


def test_page_size_is_bounded() -> None:
    weight = sum(len(document.body) for document in page.static().values()) + len(html(readings.SNAPSHOT))
    assert weight < PAGE_BYTES


def test_content_security_policy_allows_own_files_only() -> None:
    policy = page.encode(Timeline().observe(readings.SNAPSHOT)).headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "unsafe" not in policy
    assert "*" not in policy


def test_scripts_never_insert_markup() -> None:
    own = [document.body.decode() for name, document in page.static().items() if "uplot" not in name]
    assert not [text for text in own if re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b", text)]


def test_watch_row_has_all_cells() -> None:
    assert cells(readings.TAIL) == [
        "pods",
        "service",
        "within (95%)",
        "12.3 ms",
        "62.5 ms",
        "10 ms to ∞",
        ABSENT,
        "120",
        "22:13:20",
        "3",
        "0",
        "0",
        "31.5 s",
        "Watching",
        "1 s",
        "4",
        "21:56 the connection was reset",
    ]


def test_unknown_values_are_a_dash() -> None:
    row = cells(readings.IDLE)
    assert row[2] == "closed since 22:13"
    assert row[3:6] == [ABSENT] * 3
    assert (row[8], row[12], row[15]) == (ABSENT, ABSENT, ABSENT)
    assert row[13] == "Backoff (storage not proven yet)"
    assert cells(readings.STALLED)[16] == ABSENT, "it never failed"


def test_row_has_a_cell_for_each_heading() -> None:
    (head,) = re.findall(r'<table id="watches">.*?</thead>', html(readings.SNAPSHOT), re.DOTALL)
    assert head.count("<th ") == len(cells(readings.TAIL))


def test_stalled_watch_shows_duration_and_is_bad() -> None:
    assert cells(readings.STALLED)[2] == "stalled for 33.5 s"
    assert '<tr data-key="jobs@service" class="bad">' in html(readings.SNAPSHOT)


def test_unresolved_quantile_is_shown_below_the_round_trip() -> None:
    track = replace(readings.TRACK, judged=readings.window("1m", 60.0, 9, resolved=False))
    stream = replace(readings.TAIL, track=track)
    assert cells(stream)[3] == "below 1.7 ms"
    assert cells(stream, domains=())[3] == "below resolution"


def test_rough_quantile_is_marked_and_has_two_digits() -> None:
    window = readings.window("1m", 60.0, 9)
    rough = replace(window, quantiles=tuple(replace(quantile, rough=True) for quantile in window.quantiles))
    stream = replace(readings.TAIL, track=replace(readings.TRACK, judged=rough))
    assert cells(stream)[3:6] == ["~12 ms", "~62 ms", "10 ms to ∞"]


def test_p999_is_shown_next_to_p99() -> None:
    """With fewer events there is none, as in the other rows."""
    window = readings.with_p999(readings.window("1m", 60.0, 6000))
    stream = replace(readings.TAIL, track=replace(readings.TRACK, judged=window))
    assert cells(stream)[4:7] == ["62.5 ms", "10 ms to ∞", "~380 ms"]
    apiserver = replace(readings.SERVICE, combined=window)
    (row,) = rows(replace(readings.SNAPSHOT, apiservers=(apiserver,)), "apiservers")
    assert row[5:7] == ["62.5 ms", "~380 ms"]


def test_watches_are_sorted_worst_first() -> None:
    late = replace(readings.TRACK, verdict=WindowVerdict.BAD)
    streams = (readings.TAIL, readings.IDLE, replace(readings.TAIL, watch="nodes", track=late), readings.STALLED)
    found = rows(replace(readings.SNAPSHOT, streams=streams), "watches")
    assert [row[0] for row in found] == ["jobs", "nodes", 'my "deploy\\ments"', "pods"]


def test_names_and_messages_are_escaped() -> None:
    text = html(readings.SNAPSHOT)
    assert "<b>" not in text
    assert "&lt;b&gt;deployments.apps is forbidden" in text
    assert 'data-key="my &quot;deploy\\ments&quot;@10.0.0.1:6443"' in text


def test_page_lists_readiness_reasons() -> None:
    assert "<li>the clock has not ticked yet<li>no stream has started" in html(readings.EMPTY)


def test_headline_is_the_verdict() -> None:
    text = html(readings.SNAPSHOT)
    assert '<p id="headline" class="bad" aria-live="polite"' in text
    assert "<span>jobs: no events delivered since 22:13 UTC</span>" in text
    assert '<p id="figures">oldest undelivered event: 33.5 s ago</p>' in text


def test_self_check_summary_follows_the_verdict() -> None:
    verdict = html(readings.SNAPSHOT).partition('<section id="verdict"')[2].partition("</section>")[0]
    assert '<p id="trust" class="bad"><span aria-hidden="true">✗</span> <a href="#trust-title">' in verdict
    assert "<span>No: watchslo itself has a problem: Clock of jobs.batch.</span>" in verdict


def test_causes_follow_the_verdict_with_next_steps() -> None:
    causes = html(readings.SNAPSHOT).partition('<ul id="causes"')[2].partition("</ul>")[0]
    first, second = causes.split("<li>")[1:]
    assert first.startswith("10.0.0.1:6443 hands out jobs 0.31 s after storage (P50);")
    assert "&lt;b&gt;as ever" in first
    assert "cache_behind: high confidence, since 2023-11-14 22:12:30 UTC" in first
    assert "<p>Look at the connection from 10.0.0.1:6443 to etcd.</p>" in first
    assert second.startswith("The watch of jobs has said nothing for 33.5 s.")


def test_apiserver_rows_have_all_cells() -> None:
    assert rows(readings.SNAPSHOT, "apiservers") == [
        [
            "service",
            "v1.36.3",
            "2 of 2",
            "1.7 ms",
            "12.3 ms",
            "62.5 ms",
            ABSENT,
            "62.5 ms",
            "1.5 s",
            "298 ms / 312 ms",
            "95.5 s (pods)",
            "stalled_stream",
        ],
        [
            "10.0.0.1:6443",
            "v1.30.14+k3s1 (3 behind this address)",
            "0 of 1",
            "<i>no answer came in time</i>",
            *[ABSENT] * 7,
            "cache_behind",
        ],
    ]


def test_apiserver_without_watches_is_shown_with_its_role() -> None:
    service = replace(readings.SERVICE, role=ApiserverRole.SERVICE, version=None, combined=None, alone=None)
    witness = replace(service, name="10.0.0.2:6443", role=ApiserverRole.WITNESS)
    nothing = replace(readings.SNAPSHOT, apiservers=(service, witness), streams=(), domains=(), causes=())
    assert rows(nothing, "apiservers") == [
        ["service", ABSENT, "not watched", *[ABSENT] * 9],
        ["10.0.0.2:6443", ABSENT, "witness", *[ABSENT] * 9],
    ]


def test_short_headroom_is_marked() -> None:
    short = replace(readings.TAIL, headroom=replace(readings.HEADROOM, list_seconds=100.0))
    (row, _) = rows(replace(readings.SNAPSHOT, streams=(short,)), "apiservers")
    assert row[10] == "95.5 s (pods, too short)"


def test_self_checks_name_unproven_revisions() -> None:
    assert "<strong>Revisions of 10.0.0.1:6443</strong> Unproven: its storage is kine, not etcd" in html(
        readings.SNAPSHOT
    )


def test_title_has_the_cluster() -> None:
    assert "<title>watchslo: prod-eu</title>" in html(readings.SNAPSHOT)
    assert "<title>watchslo</title>" in html(readings.EMPTY)


PART = InstanceName("prod-eu", "shard 2 of 3", host="watchslo-1")


def sharded(instance: InstanceName) -> Snapshot:
    shard = ShardReading(index=1, count=3, elsewhere=24)
    return replace(readings.SNAPSHOT, monitor=replace(readings.MONITOR, instance=instance, shard=shard))


def test_page_of_a_shard_says_so_and_names_the_command_that_shows_all() -> None:
    text = html(sharded(PART))
    assert "<title>watchslo: prod-eu, shard 2 of 3</title>" in text
    assert '<h1 id="title">watchslo: prod-eu, shard 2 of 3</h1>' in text
    verdict = text.partition('<section id="verdict"')[2].partition("</section>")[0]
    note = "Only shard 2 of 3 is shown here; 24 watches run on other shards."
    assert f'<p id="part"><span>{note}</span> <code>watchslo view</code> shows all instances.</p>' in verdict


def test_page_links_to_the_configured_view() -> None:
    text = html(sharded(replace(PART, view='https://view.test/?a="b"')))
    assert '<a href="https://view.test/?a=&quot;b&quot;">All instances</a>' in text
    assert "watchslo view" not in text


def test_page_of_the_whole_cluster_says_nothing_of_parts() -> None:
    assert '<p id="part"><span></span> </p>' in html(readings.SNAPSHOT)
