"""The log of pushes."""

from tests.unit.monitor.conftest import log

__all__ = ("log",)
