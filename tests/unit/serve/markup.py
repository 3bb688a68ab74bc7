"""The HTML of pages, as their tests look at it."""

import re
from html.parser import HTMLParser

OPENING = re.compile(r"(?<=\S)(?=<(?:li|p|tr|section)[ >])")


class Elements(HTMLParser):
    """Collects tags and links; nothing may have a style or a handler of its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def filled_in(html: str, template: str) -> str:
    """Return the lines of a page that its template leaves open, for a golden file; all others must be in the page.

    Each paragraph, row and entry of a list has a line of its own.
    """
    fixed = {line for line in template.splitlines() if "$" not in line}
    lines = html.splitlines()
    assert fixed <= {*lines}, "a line of the template is missing"
    left = "\n".join(line for line in lines if line not in fixed)
    return OPENING.sub("\n", left) + "\n"
