"""The running code."""

import os
import platform

from watchslo import __version__
from watchslo.snapshot import BuildReading


def this_build() -> BuildReading:
    """Return the build of this process; images set `WATCHSLO_REVISION` to the revision of the source."""
    revision = os.environ.get("WATCHSLO_REVISION") or "unknown"
    return BuildReading(__version__, revision, platform.python_version())
