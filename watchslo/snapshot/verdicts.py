"""Verdicts on a window of time, and on all watches."""

from enum import StrEnum


class WindowVerdict(StrEnum):
    """The verdict on a window of time; undecided if there are enough events, but neither proof nor evidence."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    NO_DATA = "no_data"


class OverallVerdict(StrEnum):
    """The verdict on all watches; `timeline/verdict.py` has the table that leads to it."""

    GOOD = "good"
    LATE = "late"
    STALLED = "stalled"
    DOWN = "down"
    UNRESPONSIVE = "unresponsive"
    STORAGE_SILENT = "storage_silent"
    CAUSE = "cause"
    UNDECIDED = "undecided"
    NO_DATA = "no_data"
    CLOCK_STOPPED = "clock_stopped"
    MONITOR_PROBLEM = "monitor_problem"
    STARTING = "starting"
    PAUSED = "paused"
