"""The commands that the pages give to new users: blocks of code after `<!-- newcomer -->`."""

import re
from pathlib import Path

_BLOCK = re.compile(r"^<!-- newcomer -->\n```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def documented_commands(page: Path) -> list[str]:
    """Return the commands of these blocks without comments; a page must have at least one."""
    blocks = _BLOCK.findall(page.read_text())
    assert blocks, f"{page.name} tells a newcomer nothing"
    return [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]
