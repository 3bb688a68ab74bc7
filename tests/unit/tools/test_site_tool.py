"""Pages as GitHub reads them become pages that mkdocs reads in the same way."""

from collections.abc import Iterator

import pytest

from tools.site.markdown import converted, inside, link_outside, outside, resolved, sections, slug


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
        ("- one\n  more\n- two\n", "- one\n  more\n- two\n"),
        ("```\ntext\n- one\n```\n", "```\ntext\n- one\n```\n"),
    ],
)
def test_list_directly_below_a_paragraph_gets_a_blank_line(page: str, shown: str) -> None:
    assert converted(page) == shown


def test_code_within_an_item_is_indented_further() -> None:
    page = "1. do\n\n   ```\n   a\n     b\n   ```\n2. then\n   more\n\nend\n   no item\n"
    shown = "1. do\n\n    ```\n    a\n      b\n    ```\n2. then\n    more\n\nend\n   no item\n"
    assert converted(page) == shown


def test_links_to_files_outside_lead_to_the_repository() -> None:
    asked: list[str] = []

    def address(path: str) -> str | None:
        asked.append(path)
        return None if path.startswith("docs/") else f"https://example.org/{path}"

    page = "[a](../../deploy/README.md#x) [b](../image.md#y) [c](https://example.org/) [d](#z) ![e](f.svg)"
    shown = link_outside(page, "docs/howto/alert.md", address)
    assert asked == ["deploy/README.md", "docs/image.md", "docs/howto/f.svg"]
    assert shown == page.replace("../../deploy", "https://example.org/deploy")


def test_paths_outside_are_found() -> None:
    assert [*outside("[a](../p.png) [b](c.md) ![d](../x/e.svg)", "docs/a.md", "docs")] == ["p.png", "x/e.svg"]


def test_pages_inside_are_found_once() -> None:
    text = "[a](docs/a.md) [b](docs/b/c.md#d) [a](docs/a.md) [e](tests/e.md) [f](docs/f.png)"
    assert inside(text, "CONTRIBUTING.md", "docs") == ["a.md", "b/c.md"]


def test_paths_are_resolved_from_their_page() -> None:
    assert resolved("docs/README.md", "../README.md") == "README.md"
    assert resolved("docs/a/b.md", "c.md") == "docs/a/c.md"


def test_sections_are_those_of_the_index() -> None:
    def index() -> Iterator[str]:
        yield "# Documentation\n[no section](x.md)\n"
        yield "**Start**\n- [One](one.md): and [two](a/two.md#x); [outside](../README.md)\n- [One again](one.md)\n"
        yield "**Then**\n- [Three](three.md), [a picture](p.svg)\n"

    assert sections("\n".join(index())) == {"Start": ["one.md", "a/two.md"], "Then": ["three.md"]}
