"""Each alert has a runbook in the common form; each cause refers to one."""

import re
from pathlib import Path

import pytest

from tests.support import written
from watchslo.snapshot import Cause

FOLDER = Path(__file__).parents[2] / "docs/runbooks"
INDEX = (FOLDER / "README.md").read_text()
RUNBOOKS = sorted(path for path in FOLDER.glob("*.md") if path.stem != "README")
SECTIONS = ["Meaning", "Impact", "Likely causes", "Diagnosis", "Mitigation"]
LATENESS = ("KubeWatchLatencyBudgetBurn", "KubeWatchLatencyBadMinutes")
TALK_FAULTS = (  # the faults of the watch-SLO talk, as patterns that a runbook on lateness must contain
    r"apiserver performance",
    r"CPU or memory",
    r"client code|code or a lock",
    r"slow encoding or decoding",
    r"resourceVersion 0",
    r"massive relist",
    r"bandwidth",
    r"many clients on one (?:TCP )?connection",
)


def severities() -> dict[str, set[str]]:
    """Return the severities of each alert of the rules."""
    found: dict[str, set[str]] = {}
    for rule in (rule for rule in written.rules() if "alert" in rule):
        found.setdefault(rule["alert"], set()).add(rule["labels"]["severity"])
    return found


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS} == severities().keys()


def test_index_lists_each_alert_with_its_severities() -> None:
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| ([\w, ]+) \|", INDEX, re.MULTILINE)
    assert all(alert == page for alert, page, _ in rows)
    assert {alert: set(severity.split(", ")) for alert, _, severity in rows} == severities()


@pytest.mark.parametrize("cause", Cause)
def test_index_links_each_cause_to_a_page(cause: Cause) -> None:
    rows = [line for line in INDEX.splitlines() if line.startswith("|") and f"`{cause}`" in line]
    assert len(rows) == 1
    assert re.search(r"\]\(\w+\.md\)", rows[0])


def impacts() -> dict[str, str]:
    """Return what users feel, by alert: the beginning of its summary."""
    alerts = (rule for rule in written.rules() if "alert" in rule)
    return {rule["alert"]: rule["annotations"]["summary"].partition(":")[0] for rule in alerts}


def test_index_says_what_users_feel() -> None:
    said = dict(re.findall(r"^\| \[(\w+)\]\(\w+\.md\) \|[^|]*\| ([^:|]+):", INDEX, re.MULTILINE))
    assert said == impacts()


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
class TestRunbook:
    def test_runbook_begins_with_what_users_feel(self, path: Path) -> None:
        assert path.read_text().split("\n\n")[1] == f"{impacts()[path.stem]}."

    def test_runbook_has_all_sections(self, path: Path) -> None:
        text = path.read_text()
        assert text.startswith(f"# {path.stem}\n")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS

    def test_runbook_sections_have_content(self, path: Path) -> None:
        _, meaning, impact, causes, diagnosis, mitigation = re.split(r"^## .*$", path.read_text(), flags=re.MULTILINE)
        assert meaning.strip()
        assert impact.strip()
        assert len(re.findall(r"^\d\. ", causes, re.MULTILINE)) >= 3
        assert written.queries_of_page(diagnosis)
        assert len(re.findall(r"^- ", mitigation, re.MULTILINE)) >= 3

    def test_runbook_is_short(self, path: Path) -> None:
        lines = path.read_text().splitlines()
        assert len(lines) <= 180
        assert max(len(line) for line in lines if not line.startswith("|")) <= 140


@pytest.mark.parametrize("alert", LATENESS)
@pytest.mark.parametrize("fault", TALK_FAULTS)
def test_lateness_runbooks_name_the_faults_of_the_talk(alert: str, fault: str) -> None:
    assert re.search(fault, (FOLDER / f"{alert}.md").read_text(), re.IGNORECASE)
