"""What the pages tell a newcomer to type: blocks of code after `<!-- newcomer -->`."""

import re
from pathlib import Path

_BLOCK = re.compile(r"^<!-- newcomer -->\n```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def told_by(page: Path) -> list[str]:
    """The commands of such blocks, without their comments; a page that has none is a mistake."""
    blocks = _BLOCK.findall(page.read_text())
    assert blocks, f"{page.name} tells a newcomer nothing"
    return [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]
