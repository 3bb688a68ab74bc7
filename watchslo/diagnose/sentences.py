"""The parts of evidence sentences: figures and names as text."""

import math
from collections.abc import Iterable, Sequence
from statistics import median

from watchslo.diagnose.evidence import ApiserverEvidence, Evidence, Watch
from watchslo.model import apiserver_text


def seconds(value: float) -> str:
    """Return a duration with two digits: `4 ms`, `0.31 s`, `12 s`."""
    if value < 0.095:  # noqa: PLR2004 - below a tenth of a second, milliseconds read better
        return f"{1000 * value:.2g} ms"
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"  # noqa: PLR2004 - from here on .2g writes 1e+02


def names_of(names: Iterable[str]) -> str:
    """Return each name once: `a, b and c`."""
    *first, last = sorted(set(names))
    return f"{', '.join(first)} and {last}" if first else last


def apiservers_of(watches: Iterable[Watch]) -> str:
    """Return the apiserver of each watch once: `10.0.0.1:6443 and 10.0.0.2:6443`, or `the apiserver`."""
    return names_of(apiserver_text(watch.apiserver) for watch in watches)


def worst_of(watches: Sequence[Watch]) -> str:
    """Return the latest of the watches with its delay: `pods 0.31 s late (P50)`."""
    worst = max(watches, key=lambda watch: watch.lateness or 0.0)
    by = f"P{worst.figure.q * 100:.0f}" if worst.figure and worst.figure.seconds == worst.lateness else "now"
    return f"{worst.name} {seconds(worst.lateness or 0.0)} late ({by})"


def others_of(evidence: Evidence, watches: Sequence[Watch]) -> str:
    """Return the delay of the same watches at the other apiservers, or nothing if no healthy one is known."""
    figures = [
        peer.figure.seconds for watch in watches for peer in evidence.peers(watch) if peer.healthy and peer.figure
    ]
    return f"; {seconds(median(figures))} at the other apiservers" if figures else ""


def silence_of(apiserver: ApiserverEvidence) -> str:
    """Return for how long an apiserver has answered no tick: `for 12 s`, or `so far` if it never did."""
    return "so far" if math.isinf(apiserver.silent_for) else f"for {seconds(apiserver.silent_for)}"


def ticks_of(apiservers: Iterable[ApiserverEvidence]) -> str:
    """Return how long ticks take through each apiserver: `ticks take 1.8 ms (a:1), 0.31 s (b:1)`."""
    known = {apiserver.name: apiserver.tick for apiserver in apiservers if apiserver.tick is not None}
    took = ", ".join(f"{seconds(tick)} ({apiserver_text(name)})" for name, tick in sorted(known.items()))
    return f"ticks take {took}" if took else "no tick is answered"
