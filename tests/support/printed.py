"""What a command prints."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Printed:
    """The exit code of a command, and what it printed on stdout and on stderr."""

    code: int
    text: str
    errors: str = ""

    @property
    def document(self) -> Any:
        return json.loads(self.text)

    @property
    def transcript(self) -> str:
        """The exit code and the text, without spaces at the ends of lines."""
        return "\n".join([f"exit code {self.code}", *map(str.rstrip, self.text.splitlines()), ""])
