"""Converts pages as GitHub reads them to pages as mkdocs reads them; pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

DOCS = "docs/"
INDEX, RUNBOOKS = "README.md", "runbooks/"  # in the site
FURTHER_PAGES = ("deploy/README.md", "dashboards/README.md")
"""Pages of the site outside of the folder `docs`; they keep their paths in the repository."""

FENCE = re.compile(r"^ *```")
ITEM = re.compile(r"^(?:- |\d+\. )")
LINK = re.compile(r"\]\((?!\w+:)(?P<path>[^)#\s]+)(?P<anchor>#[^)]*)?\)")
HEADING = re.compile(r"^(?P<level>##|###) (?P<title>.+)$")
INDENT = "    "  # of what belongs to an item, for mkdocs; for GitHub, as much as the item's marker


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading as GitHub makes it; `separator` is what mkdocs would use instead of a hyphen."""
    del separator
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def converted(text: str) -> str:
    """Return a page whose lists have a blank line before them, and whose items contain what is indented below."""
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    code = False
    previous = marker = ""
    for line in lines:
        if not code and line and not line[0].isspace():
            marker = found[0] if (found := ITEM.match(line)) else ""
        if FENCE.match(line):
            code = not code
        elif not code and ITEM.match(line) and previous and not ITEM.match(previous) and not previous[0].isspace():
            yield ""
        own = " " * len(marker)
        yield line.replace(own, INDENT, 1) if marker and line.startswith(own) else line
        previous = line


def site_path(path: str) -> str | None:
    """Return the path in the site of a path in the repository; None if the site does not have it as a page."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return path if path in FURTHER_PAGES else None


def repository_path(page: str) -> str:
    """Return the path in the repository of a page, given as its path in the site."""
    return page if page in FURTHER_PAGES else DOCS + page


def linked(text: str, page: str) -> list[str]:
    """Return the paths in the repository to which a page leads, each once; `page` is its own path there."""
    return [*dict.fromkeys(resolved(page, link["path"]) for link in LINK.finditer(text))]


def linked_pages(text: str, page: str) -> list[str]:
    """Return the pages of the site to which a page of the repository links, as paths in the site.

    The index and the runbooks are left out: the navigation has entries of their own for them.
    """
    found = (site_path(path) for path in linked(text, page) if path.endswith(".md"))
    return [path for path in found if path is not None and path != INDEX and not path.startswith(RUNBOOKS)]


def with_links(text: str, page: str, address: Callable[[str], str]) -> str:
    """Replace the links of a page to files.

    Args:
        text: A page of the repository.
        page: The path of the page in the repository, such as `docs/howto/alert.md`.
        address: Returns where a link to a path of the repository leads.
    """

    def replaced(link: re.Match[str]) -> str:
        return f"]({address(resolved(page, link['path']))}{link['anchor'] or ''})"

    return LINK.sub(replaced, text)


def resolved(page: str, path: str) -> str:
    """Return the path in the repository to which a relative path of a page leads."""
    parts: list[str] = []
    for part in (PurePosixPath(page).parent / path).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def sections(index: str, page: str) -> dict[str, dict[str, list[str]]]:
    """Return the pages that an index lists, by section and group, as paths in the site.

    A heading of level 2 begins a section, and one of level 3 a group in it. What is listed above the groups of a
    section belongs to the group "".
    """
    found: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    pages: list[str] = []
    for line in index.splitlines():
        if heading := HEADING.match(line):
            is_section = heading["level"] == "##"
            if is_section:
                section = found[heading["title"]] = {}
            pages = section["" if is_section else heading["title"]] = []
        else:
            pages += linked_pages(line, page)
    return found


def navigation(sections: Mapping[str, Mapping[str, Sequence[str]]]) -> list[dict[str, list[Any]]]:
    """Return sections as mkdocs reads them. A page that is listed several times is kept where it comes first."""
    listed: set[str] = set()
    found = []
    for title, groups in sections.items():
        entries: list[Any] = []
        for group, pages in groups.items():
            new = [page for page in dict.fromkeys(pages) if page not in listed]
            listed.update(new)
            entries += [{group: new}] if group else new
        found.append({title: entries})
    return found
