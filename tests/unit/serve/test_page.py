"""The page: its texts, that no value can become markup, and that it loads its own files only."""

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape

import pytest

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from tests.unit.serve.markup import Elements
from watchslo.model import InstanceName
from watchslo.serve import page
from watchslo.snapshot import ApiserverRole, ShardReading, Snapshot, WatchReading, WindowVerdict
from watchslo.timeline.timeline import Timeline

PAGE_BYTES = 250_000
Golden = Callable[[str, str], None]


def html(snapshot: Snapshot) -> str:
    return page.encode(Timeline().observe(snapshot)).body.decode()


def rows(snapshot: Snapshot, table: str) -> list[list[str]]:
    """Return the texts of all cells of a table's body."""
    body = html(snapshot).partition(f'<table id="{table}">')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    return [[unescape(text) for text in re.findall(r"<t[hd][^>]*>([^<]*)", row)] for row in body.split("</tr>")[:-1]]


def judged_by(window: object) -> WatchReading:
    return readings.changed(readings.TAIL, track={"judged": window})


# The texts


def test_page_matches_golden_file(golden: Golden) -> None:
    golden("page.html", html(readings.SNAPSHOT))


FEW = readings.window("1m", 60.0, 9, 0.02)
ALL_ROUGH = tuple(replace(one, rough=True) for one in readings.TRACK.windows[0].quantiles)
ROUGH = replace(readings.window("1m", 60.0, 9), quantiles=ALL_ROUGH)
MANY = readings.with_p999(readings.window("1m", 60.0, 6000))
SERVICE = replace(readings.SERVICE, role=ApiserverRole.SERVICE, version=None, combined=None, alone=None)
WITNESS = replace(SERVICE, name="10.0.0.2:6443", role=ApiserverRole.WITNESS)
WATCHES = {
    "P99 below the round trip": replace(readings.SNAPSHOT, watches=(judged_by(FEW),)),
    "P99 below the resolution": replace(readings.SNAPSHOT, watches=(judged_by(FEW),), domains=()),
    "rough P99": replace(readings.SNAPSHOT, watches=(judged_by(ROUGH),)),
    "P99.9": replace(readings.SNAPSHOT, watches=(judged_by(MANY),)),
    "the worst watch first": replace(
        readings.SNAPSHOT,
        watches=(
            readings.TAIL,
            readings.IDLE,
            readings.changed(readings.TAIL, watch="nodes", track={"verdict": WindowVerdict.BAD}),
            readings.STALLED,
        ),
    ),
}
APISERVERS = {
    "P99.9": replace(readings.SNAPSHOT, apiservers=(replace(readings.SERVICE, combined=MANY),)),
    "without watches": replace(readings.SNAPSHOT, apiservers=(SERVICE, WITNESS), watches=(), domains=(), causes=()),
    "short headroom": replace(
        readings.SNAPSHOT, watches=(readings.changed(readings.TAIL, headroom={"list_seconds": 100.0}),)
    ),
}


def test_rows_of_other_states_match_golden_file(golden: Golden) -> None:
    shown = {
        f"{table}: {title}": [" | ".join(row) for row in rows(snapshot, table)]
        for table, cases in (("watches", WATCHES), ("apiservers", APISERVERS))
        for title, snapshot in cases.items()
    }
    golden("page-rows.txt", of_states(shown))


def test_row_has_a_cell_for_each_heading() -> None:
    (head,) = re.findall(r'<table id="watches">.*?</thead>', html(readings.SNAPSHOT), re.DOTALL)
    assert {head.count("<th ")} == {len(row) for row in rows(readings.SNAPSHOT, "watches")}


@pytest.mark.parametrize("table", ["reactions", "clients"])
def test_table_without_rows_is_hidden(table: str) -> None:
    assert f'<section id="{table}-section" aria-labelledby="{table}-title">' in html(readings.SNAPSHOT)
    assert f'<section id="{table}-section" aria-labelledby="{table}-title" hidden>' in html(readings.EMPTY)


def test_page_before_the_first_evaluation_has_the_reasons() -> None:
    text = html(readings.EMPTY)
    assert "<title>watchslo</title>" in text
    assert "<li>the clock has not ticked yet<li>no stream has started" in text


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
    assert '<a href="https://view.test/?a=&#34;b&#34;">All instances</a>' in text
    assert "watchslo view" not in text


# What it loads


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


def test_names_and_messages_are_no_markup() -> None:
    text = html(readings.SNAPSHOT)
    assert not {"b", "i"} & {*Elements(text).tags}
    assert "&lt;b&gt;deployments.apps is forbidden" in text


def test_scripts_never_insert_markup() -> None:
    own = [document.body.decode() for name, document in page.static().items() if "uplot" not in name]
    assert not [text for text in own if re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b", text)]
