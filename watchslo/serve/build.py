"""Which code runs."""

import os
import platform

from watchslo import __version__
from watchslo.snapshot import BuildReading


def this_build() -> BuildReading:
    """This process's build; whoever builds an image sets `WATCHSLO_REVISION` to the revision of the source."""
    revision = os.environ.get("WATCHSLO_REVISION") or "unknown"
    return BuildReading(__version__, revision, platform.python_version())
