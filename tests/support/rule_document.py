"""The document of `watchslo rules`, for a format that has only one."""

from pathlib import Path
from typing import Any

from watchslo.app.rules import RulesOptions, documents


def document(file: Path | None, options: RulesOptions) -> dict[str, Any]:
    """Return the only document; raises ConfigError."""
    (only,) = documents(file, options)
    return only
