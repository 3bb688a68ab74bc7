"""The documentation holds what it says: its configurations load, its links lead somewhere, and it is of this code."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema_rs
import pytest
import yaml

from tests.support.newcomer import documented_commands
from tools.docs.pages import PAGES as GENERATED
from watchslo.config.loading import load
from watchslo.snapshot import Cause

ROOT = Path(__file__).parents[2]
BUILT = re.compile(r"(?:^|/)(?:\.|node_modules/|mutants/|dist/)")
PAGES = sorted(page for page in ROOT.glob("**/*.md") if not BUILT.search(str(page.relative_to(ROOT))))
SCHEMA = "docs/reference/watchslo.schema.json"
YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
FENCE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)

TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
CELL = re.compile(r"(?<!\\)\|")
FIRST_CELL = re.compile(r"^\| ([^|`]+?) \|", re.MULTILINE)
COST = re.compile(r"[\d.,]+ (?:µs|MiB)")
SELF_CHECKS = ROOT / "tests/golden/self-checks.txt"


def blocks() -> list[str]:
    return [block for page in PAGES for block in YAML.findall(page.read_text()) if "watch:" in block]


@pytest.mark.parametrize("block", blocks())
def test_a_configuration_that_is_shown_loads(block: str, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text(block)
    config, _ = load(path, {"NODE_NAME": "node", "POD_NAME": "watchslo-2"})
    assert config.watch


@pytest.fixture(scope="module")
def schema() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads(GENERATED[SCHEMA]()))


def test_schema_accepts_the_configurations_that_are_shown_and_shipped(schema: jsonschema_rs.Validator) -> None:
    shipped = [path.read_text() for path in ROOT.glob("deploy/chart/profiles/*/watchslo.yaml")]
    for text in (*blocks(), *shipped):
        schema.validate(yaml.safe_load(text))
    assert shipped


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("watch: [{resource: pods, names: mine}]", ["watch", 0]),
        ("objective: {threshold: 1 second}", ["objective", "threshold"]),
        ("mode: nodes", ["mode"]),
        ("limits: {requestsPerSecond: many}", ["limits", "requestsPerSecond"]),
        ("title: none", []),
    ],
)
def test_schema_refuses_mistakes(text: str, place: list[str | int], schema: jsonschema_rs.Validator) -> None:
    errors = [*schema.iter_errors(yaml.safe_load(text))]
    assert [[*error.instance_path] for error in errors] == [place]


def test_configurations_are_shown() -> None:
    assert blocks()


def prose(page: Path) -> str:
    """A page without its blocks of code, whose `#` are no headings."""
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> Iterator[str]:
    """What a link into a page may name, as repository pages make it of headings."""
    seen: Counter[str] = Counter()
    for heading in HEADING.findall(prose(page)):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        yield f"{slug}-{seen[slug]}" if seen[slug] else slug
        seen[slug] += 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = []
    for path, anchor in LINK.findall(prose(page)):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            missing.append(f"{path}#{anchor}")
    assert missing == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `x.y`\n## Two\n## Two\n```\n# no heading\n[no](link)\n```\n[a](#two-1) [b](page.md#one-xy)\n"
    )
    assert list(anchors(page)) == ["one-xy", "two", "two-1"]
    assert LINK.findall(prose(page)) == [("", "two-1"), ("page.md", "one-xy")]


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    """The pages for contributors are in CONTRIBUTING.md."""
    index = ROOT / "docs/README.md"
    linked = {
        (page.parent / path).resolve()
        for page in (index, ROOT / "CONTRIBUTING.md")
        for path, _ in LINK.findall(page.read_text())
    }
    pages = {page for page in PAGES if page.is_relative_to(index.parent)} - set((ROOT / "docs/runbooks").iterdir())
    assert pages - {index} - linked == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_of_a_table_have_as_many_cells_as_its_head(page: Path) -> None:
    tables = TABLE.findall(prose(page))
    widths = [{len(CELL.findall(row)) for row in table.splitlines()} for table in tables]
    assert [table for table, found in zip(tables, widths, strict=True) if len(found) > 1] == []


def test_terms_of_the_glossary_are_sorted_and_defined_once() -> None:
    terms = [term.lower() for term in FIRST_CELL.findall((ROOT / "docs/glossary.md").read_text())][1:]
    assert len(terms) > 30
    assert terms == sorted({*terms})


def test_each_cause_has_a_row_in_the_table_of_causes() -> None:
    table = (ROOT / "docs/causes.md").read_text().partition("## The table")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == sorted(Cause)


def test_each_self_check_has_a_row_in_the_table_of_the_page() -> None:
    documented = {*FIRST_CELL.findall((ROOT / "docs/page.md").read_text())}
    shown = re.findall(r"^([A-Z][a-z]+(?: [a-z]+)?): (?:good|bad|unknown)\.", SELF_CHECKS.read_text(), re.MULTILINE)
    assert "Storage" in shown
    assert {*shown} - documented == set()


@pytest.mark.parametrize("name", ["README.md", "docs/operations.md"])
def test_figures_of_cpu_and_memory_are_those_of_the_page_of_costs(name: str) -> None:
    figures, measured = ({*COST.findall((ROOT / page).read_text())} for page in (name, "docs/performance.md"))
    assert figures
    assert figures - measured == set()


@pytest.mark.parametrize("name", GENERATED)
def test_what_is_generated_is_of_this_code(name: str) -> None:
    assert (ROOT / name).read_text() == GENERATED[name](), "run `make docs` and look at the difference"


def test_drawings_are_drawings() -> None:
    drawings = {ROOT / name for name in GENERATED if name.endswith(".svg")} | {*(ROOT / "docs").glob("**/*.svg")}
    assert drawings
    for drawing in drawings:
        text = drawing.read_text()
        assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert "prefers-color-scheme: dark" in text


def test_commands_for_newcomers_exist() -> None:
    """The commands that a test runs in a fresh clone: at least the demo, the installation and a measurement."""
    commands = [line for page in ("README.md", "docs/quickstart.md") for line in documented_commands(ROOT / page)]
    programs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {"make demo", "make setup"} <= set(commands)
    assert any(line.startswith(".venv/bin/watchslo check") for line in commands)
    assert all(line.split()[0].removeprefix(".venv/bin/") in {"make", *programs} for line in commands)


@pytest.mark.parametrize("name", ["docs/howto/install.md", "deploy/README.md"])
def test_pages_about_a_release_name_the_version_of_the_project(name: str) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    named = re.findall(r"(?<![\d.])\d+\.\d+\.\d+(?!\.?\d)", (ROOT / name).read_text())
    assert {*named} == {version}


def test_files_named_by_the_architecture_page_exist() -> None:
    """A file is named as `folder/module.py`, a package as `folder/`."""
    text = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|md))?)`", text))
    assert len(named) > 30
    assert [
        name for name in sorted(named) if not any((base / name).exists() for base in (ROOT, ROOT / "watchslo"))
    ] == []
