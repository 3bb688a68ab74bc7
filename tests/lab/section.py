"""Tables in Markdown, and the place of the section "A scripted night" in docs/faults.md. Pure."""

from collections.abc import Iterable, Sequence

BEGIN, END = "<!-- night -->", "<!-- night ends -->"


def of(text: str) -> str:
    """Return the section in a page, with its markers; empty if it has none."""
    _, begin, rest = text.partition(BEGIN)
    return f"\n{BEGIN}{rest.partition(END)[0]}{END}\n" if begin else ""


def without(text: str) -> str:
    """Return a page without its section."""
    return text.replace(of(text), "") if BEGIN in text else text


def placed(text: str, section: str) -> str:
    """Return a page that ends with this section instead of an earlier one."""
    return f"{without(text)}\n{BEGIN}\n{section.strip()}\n{END}\n"


def table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
