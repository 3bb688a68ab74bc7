"""Pages as GitHub reads them become pages that mkdocs reads in the same way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.site.markdown import (
    FURTHER_PAGES,
    converted,
    linked,
    linked_pages,
    navigation,
    repository_path,
    resolved,
    sections,
    site_path,
    slug,
    with_links,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("One `x.y`", "one-xy"), ("Idle, stalled", "idle-stalled"), ("P99 → a *tail*", "p99--a-tail"), ("Größe", "größe")],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert slug(heading, "_") == anchor


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("text\n- one\n- two\n", "text\n\n- one\n- two\n"),
        ("**Title**\n1. one\n2. two", "**Title**\n\n1. one\n2. two"),
        ("- one\n  more\n- two\n", "- one\n    more\n- two\n"),
        ("```\ntext\n- one\n```\n", "```\ntext\n- one\n```\n"),
    ],
)
def test_list_directly_below_a_paragraph_gets_a_blank_line(page: str, shown: str) -> None:
    assert converted(page) == shown


def test_code_within_an_item_is_indented_further() -> None:
    page = "1. do\n\n   ```\n   a\n     b\n   ```\n2. then\n   more\n\nend\n   no item\n"
    shown = "1. do\n\n    ```\n    a\n      b\n    ```\n2. then\n    more\n\nend\n   no item\n"
    assert converted(page) == shown


def test_list_within_an_item_is_indented_further() -> None:
    page = "- one:\n  - a\n    more\n\n  end\n\n```yaml\nwatch:\n  - resource: pods\n```\n"
    shown = "- one:\n    - a\n      more\n\n    end\n\n```yaml\nwatch:\n  - resource: pods\n```\n"
    assert converted(page) == shown


def test_links_lead_to_the_addresses_of_their_files() -> None:
    asked: list[str] = []

    def address(path: str) -> str:
        asked.append(path)
        return f"to/{path}"

    page = "[a](../../deploy/README.md#x) [b](../image.md#y) [c](https://example.org/) [d](#z) ![e](f.svg)"
    shown = with_links(page, "docs/howto/alert.md", address)
    assert asked == ["deploy/README.md", "docs/image.md", "docs/howto/f.svg"]
    assert shown == (
        "[a](to/deploy/README.md#x) [b](to/docs/image.md#y) [c](https://example.org/) [d](#z) ![e](to/docs/howto/f.svg)"
    )


@pytest.mark.parametrize("page", ["README.md", "howto/alert.md", *FURTHER_PAGES])
def test_each_page_of_the_site_is_a_file_of_the_repository(page: str) -> None:
    path = repository_path(page)
    assert (ROOT / path).is_file()
    assert site_path(path) == page


def test_files_outside_of_the_site_are_no_pages() -> None:
    assert [site_path(path) for path in ("README.md", "deploy/chart/README.md", "tests/a.md")] == [None] * 3


def test_linked_paths_are_found_once() -> None:
    assert linked("[a](../p.png) [b](c.md) ![d](../x/e.svg) [f](c.md#g)", "docs/a.md") == [
        "p.png",
        "docs/c.md",
        "x/e.svg",
    ]


def test_linked_pages_are_those_of_the_site_without_index_and_runbooks() -> None:
    text = (
        "[a](docs/a.md) [b](docs/b/c.md#d) [e](tests/e.md) [f](docs/f.png) [g](docs/README.md) [h](docs/runbooks/h.md)"
    )
    assert linked_pages(f"{text} [i](deploy/README.md)", "CONTRIBUTING.md") == ["a.md", "b/c.md", "deploy/README.md"]


def test_paths_are_resolved_from_their_page() -> None:
    assert resolved("docs/README.md", "../README.md") == "README.md"
    assert resolved("docs/a/b.md", "c.md") == "docs/a/c.md"


def test_sections_are_those_of_the_index() -> None:
    def index() -> Iterator[str]:
        yield "# Documentation\n[no section](x.md)\n"
        yield "## Start\n- [One](one.md): and [two](a/two.md#x); [outside](../README.md)\n"
        yield "## Tasks\n- [Three](three.md), [a picture](p.svg)\n"
        yield "### Install\n- [Cluster](../deploy/README.md)\n### Alert\n- [Four](four.md)\n"

    assert sections("\n".join(index()), "docs/README.md") == {
        "Start": {"": ["one.md", "a/two.md"]},
        "Tasks": {"": ["three.md"], "Install": ["deploy/README.md"], "Alert": ["four.md"]},
    }


def test_navigation_lists_each_page_once() -> None:
    given = {"Start": {"": ["one.md"]}, "Tasks": {"": ["one.md", "two.md"], "Install": ["three.md", "three.md"]}}
    assert navigation(given) == [{"Start": ["one.md"]}, {"Tasks": ["two.md", {"Install": ["three.md"]}]}]


def test_index_of_the_documentation_groups_the_tasks() -> None:
    index = "docs/README.md"
    tasks = sections((ROOT / index).read_text(), index)["Tasks"]
    assert [group for group, pages in tasks.items() if pages] == [
        "Install",
        "Alert",
        "Investigate",
        "Integrate",
        "Test a control plane",
    ]
    assert {*FURTHER_PAGES} <= {page for pages in tasks.values() for page in pages}
