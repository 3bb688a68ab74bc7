"""A statement of a real daemon counts only together with the daemon's own word that it kept up."""

from collections.abc import Callable
from typing import TypeVar

from tests.support.daemon import Daemon

PLAYS = 3
OVERLOADED = "monitor_overloaded"

T = TypeVar("T")


def while_kept_up(daemon: Callable[[], Daemon], play: Callable[[], T], judge: Callable[[T], None]) -> T:
    """Play a scenario, judge its result by assertions, and return the result.

    Use it for statements that slowness of this machine may change: a cause, a verdict, a count of samples. If a
    judgement fails and the daemon says that it did not keep up during the play, the scenario is played again, at most
    twice, and the output says so. A judgement that fails although the daemon kept up fails at once. `daemon` is called
    before and after each play, because a scenario may restart it.
    """
    for number in range(1, PLAYS + 1):
        before = _late_seconds(daemon())
        found = play()
        try:
            judge(found)
        except AssertionError as error:
            late = _late_seconds(daemon()) - before
            overloaded = any(cause["cause"] == OVERLOADED for cause in daemon().status()["causes"])
            if number == PLAYS or not (late > 0.0 or overloaded):
                error.add_note(f"play {number} of at most {PLAYS}; the daemon was late for {late:.2f} s")
                raise
            print(f"play {number} says nothing: the daemon was late for {late:.2f} s; {error}")
        else:
            return found
    raise AssertionError("unreachable")


def _late_seconds(daemon: Daemon) -> float:
    """Return for how long the measuring loop has been late so far, by the daemon's own word."""
    return daemon.scrape().total("watchslo_tainted_seconds_total")
