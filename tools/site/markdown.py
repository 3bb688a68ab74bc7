"""Converts pages as GitHub reads them to pages as mkdocs reads them; pure."""

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

FENCE = re.compile(r"^ *```")
ITEM = re.compile(r"^(?:- |\d+\. )")
ORDERED = re.compile(r"^\d+\. ")
LINK = re.compile(r"\]\((?!\w+:)(?P<path>[^)#\s]+)(?P<anchor>#[^)]*)?\)")
TITLE = re.compile(r"^\*\*(?P<title>[^*]+)\*\*$")
INDENT = "   "  # of what belongs to an item of an ordered list; mkdocs wants one column more


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading as GitHub makes it; `separator` is what mkdocs would use instead of a hyphen."""
    del separator
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def converted(text: str) -> str:
    """Return a page whose lists have a blank line before them, and whose items contain what is indented below."""
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    code = in_ordered = False
    previous = ""
    for line in lines:
        if FENCE.match(line):
            code = not code
        elif not code and ITEM.match(line) and previous and not ITEM.match(previous) and not previous[0].isspace():
            yield ""
        if not code and line and not line[0].isspace():
            in_ordered = bool(ORDERED.match(line))
        yield f" {line}" if in_ordered and line.startswith(INDENT) else line
        previous = line


def outside(text: str, page: str, docs: str) -> Iterator[str]:
    """Yield the paths in the repository to which a page links, except those in the folder `docs`."""
    paths = (resolved(page, link["path"]) for link in LINK.finditer(text))
    return (path for path in paths if not path.startswith(f"{docs}/"))


def inside(text: str, page: str, docs: str) -> list[str]:
    """Return the pages in the folder `docs` to which a page of the repository links, as paths in that folder."""
    paths = (resolved(page, link["path"]) for link in LINK.finditer(text))
    pages = (path.removeprefix(f"{docs}/") for path in paths if path.startswith(f"{docs}/") and path.endswith(".md"))
    return [*dict.fromkeys(pages)]


def link_outside(text: str, page: str, address: Callable[[str], str | None]) -> str:
    """Replace links to files outside of the documentation.

    Args:
        text: A page of the documentation.
        page: The path of the page in the repository, such as `docs/howto/alert.md`.
        address: Returns the address of a path of the repository; None if it is a page of the site.
    """

    def replaced(link: re.Match[str]) -> str:
        found = address(resolved(page, link["path"]))
        return link[0] if found is None else f"]({found}{link['anchor'] or ''})"

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


def sections(index: str) -> dict[str, list[str]]:
    """Return the pages that the index lists below each bold title, as paths; those outside are left out."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in index.splitlines():
        if heading := TITLE.match(line):
            title = heading["title"]
            found[title] = []
        elif title:
            found[title] += [link["path"] for link in LINK.finditer(line) if link["path"].endswith(".md")]
    inside = {name: [path for path in paths if not path.startswith("../")] for name, paths in found.items()}
    return {name: [*dict.fromkeys(paths)] for name, paths in inside.items()}
