"""The place of the section "A scripted night" in docs/faults.md, whose other parts `make faults` writes. Pure."""

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
