"""Keeps modules that are installed, but not needed by a command, out of its process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Let `import` not find a module in this context, as if it were not installed; it has no effect if it is loaded.

    Libraries import some modules only if they are installed, for features that we do not use.
    """
    if name in sys.modules:
        yield
        return
    # See https://docs.python.org/3/reference/import.html#the-module-cache
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
