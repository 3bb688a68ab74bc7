"""A report in each of its formats: what they look like, and that no text can become markup."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.unit.report.incidents import BEGIN_WALL, HOSTILE, QUIET, SLOW, incident, period
from watchslo.report.brief import MOST_CHARACTERS, as_brief
from watchslo.report.html import as_html
from watchslo.report.incident import (
    CauseRecord,
    EventRecord,
    IncidentReport,
    LatencyCurve,
    WatchRecord,
)
from watchslo.report.markdown import as_markdown, escaped
from watchslo.report.sections import MOST_CAUSES, MOST_CHARTS, MOST_EVENTS, MOST_ROWS, MOST_WATCHES
from watchslo.timeline.day import Minute
from watchslo.timeline.format import ABSENT
from watchslo.timeline.verdict import Level

VOID = {"meta", "link", "line", "rect", "circle", "polyline", "polygon"}
OPTIONAL = {"p", "li", "dt", "dd", "td", "th", "tr"}  # HTML closes these by itself


class Elements(HTMLParser):
    """Collects elements, links and texts; fails if the elements are not nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.named: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert not any(name.startswith("on") or name == "style" for name in given)
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        self.ids += [given["id"] or ""] if "id" in given else []
        self.named += (given.get("aria-labelledby") or "").split()
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1] != tag and self._open[-1] in OPTIONAL:
            self._open.pop()
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def wide() -> IncidentReport:
    """Return a report with more of everything than is shown."""
    report = incident()
    curve = report.watches[0].curve
    count = report.period.minutes
    watches = [WatchRecord(f"watch-{number}", "service", curve, (Minute.BAD,) * count) for number in range(150)]
    events = [EventRecord(BEGIN_WALL + number, Level.GOOD, f"event {number}") for number in range(200)]
    events.append(EventRecord(BEGIN_WALL + 300, Level.BAD, "the worst"))
    causes = [CauseRecord(f"cause-{n}", "", None, BEGIN_WALL + n, None, "evidence " * 40, "look") for n in range(40)]
    return replace(
        report,
        watches=tuple(watches),
        events=tuple(events),
        causes=tuple(causes),
        reactions=report.reactions * 60,
    )


def test_formats_match_golden_files(golden: Callable[[str, str], None]) -> None:
    golden("report.html", as_html(incident()))
    golden("report.md", as_markdown(incident()))
    golden("report.txt", as_brief(incident()))


@pytest.mark.parametrize("report", [incident(), incident(QUIET), wide()], ids=["late", "quiet", "wide"])
class TestHtml:
    def test_file_needs_nothing_else(self, report: IncidentReport) -> None:
        found = Elements(as_html(report))
        assert found.links == ["data:,"]
        assert not {"script", "img", "iframe", "object", "use", "image"} & {*found.tags}
        assert "url(" not in as_html(report)
        assert "@import" not in as_html(report)

    def test_ids_are_unique_and_each_chart_is_described(self, report: IncidentReport) -> None:
        found = Elements(as_html(report))
        assert len(found.ids) == len({*found.ids})
        assert {*found.named} <= {*found.ids}
        assert found.tags.count("svg") == found.tags.count("desc") == found.tags.count("title") - 1

    def test_a_table_is_next_to_each_chart(self, report: IncidentReport) -> None:
        charts = as_html(report).split('<div class="chart">')[1:]
        assert charts
        assert all("</svg>\n<table><caption>" in chart for chart in charts)


def test_no_text_becomes_markup() -> None:
    page = as_html(incident())
    assert HOSTILE not in page
    assert SLOW.evidence not in page
    texts = " ".join(Elements(page).texts)
    assert HOSTILE in texts
    assert SLOW.evidence in texts
    assert "$" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


def test_markdown_escapes_its_own_characters() -> None:
    assert escaped("a|b\n`c` <d> *e* _f_ [g](h) #i ~j~ !k \\") == (
        r"a\|b \`c\` \<d\> \*e\* \_f\_ \[g\](h) \#i \~j\~ \!k " + "\\\\"
    )
    text = as_markdown(incident())
    assert HOSTILE not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows
    assert all(line.endswith("|") for line in rows)


def test_rows_of_blocks_have_one_sign_for_each_part_of_the_period() -> None:
    blocks = re.findall(r"`([▁▂▃▄▅▆▇█·]+)`", as_markdown(incident()))
    assert {len(row) for row in blocks} == {45}
    long = as_markdown(incident(covered=period(-180, 45)))
    assert {len(row) for row in re.findall(r"`([▁▂▃▄▅▆▇█·]{50,})`", long)} == {57}


class TestBounds:
    def test_what_is_not_shown_is_counted(self) -> None:
        text = as_markdown(wide())
        assert text.count("\n### ") == MOST_CHARTS
        assert f"{150 - MOST_WATCHES} watches more are not shown." in text
        assert f"{201 - MOST_EVENTS} events of less importance are not shown." in text
        assert f"{120 - MOST_ROWS} steps more are not shown." in text
        assert f"{40 - MOST_CAUSES} causes more are not shown." in text
        assert "the worst" in text

    @pytest.mark.parametrize("report", [incident(), incident(QUIET), wide()], ids=["late", "quiet", "wide"])
    def test_brief_fits_into_one_message(self, report: IncidentReport) -> None:
        text = as_brief(report)
        assert len(text) <= MOST_CHARACTERS + 1
        assert 4 <= len(text.splitlines()) <= 12

    def test_long_lines_of_the_brief_are_cut(self) -> None:
        assert "…" in as_brief(wide())


def test_empty_report_says_so_in_every_section() -> None:
    covered = period(0, 2)
    empty = IncidentReport("watchslo", "a test", covered.until_wall, covered, BEGIN_WALL, BEGIN_WALL, ())
    text = as_markdown(empty)
    for sentence in (
        "Nothing was recorded.",
        "No figures of this period are kept.",
        "No watch was measured.",
        "No cause was named.",
        "No checks of guarantees were recorded.",
        "Nothing was counted.",
    ):
        assert sentence in text
    Elements(as_html(empty))


def rows_of(title: str, report: IncidentReport) -> list[str]:
    """Return the rows of the table in the section with this title, with its headings; none without the section."""
    section = as_markdown(report).partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [row for row in section.splitlines() if row.startswith("|") and "---" not in row]


def test_controllers_have_a_row_for_each_step_and_none_without_reactions() -> None:
    heading, scheduled, observed = rows_of("Controllers", incident())
    assert heading.startswith("| Resource | Step | Component | Events | P50 | P99 |")
    assert scheduled.startswith("| pods | scheduled | the scheduler | 40 | 8 ms | 300 ms |")
    assert observed.endswith("| 3 | 12.5 s | slow (\\> 10 s) |")
    assert rows_of("Controllers", replace(incident(), reactions=())) == []


def test_clients_have_their_stale_resources_and_none_without_clients() -> None:
    heading, jobs, _, others, scheduler = rows_of("Clients", incident())
    assert heading == "| Client | Resource | Staleness bounds | Queued | Condition |"
    assert jobs == f"| kube-controller-manager | jobs.batch | proven 600 s to ∞ | {ABSENT} | stale |"
    assert others.endswith("| 1 current, 56 unknown (unwatched) |")
    assert scheduler.endswith("| https://10.0.0.7:10259 refuses its page. |")
    assert rows_of("Clients", replace(incident(), clients=())) == []


def test_without_quantiles_there_is_no_chart() -> None:
    watch = WatchRecord("pods", "service", LatencyCurve(), (Minute.NO_DATA,) * 45)
    report = replace(incident(), watches=(watch,), proven_only=True)
    assert "Without quantiles (mode: node) there is no curve." in as_markdown(report)


def test_watches_of_one_apiserver_each_have_no_second_charts() -> None:
    report = incident()
    assert "of each apiserver" in as_html(report)
    assert "of each apiserver" not in as_html(replace(report, watches=report.watches[:2]))
