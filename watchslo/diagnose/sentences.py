"""How evidence reads: the figures that the rules' sentences are made of."""

import math
from collections.abc import Iterable, Sequence
from statistics import median

from watchslo.diagnose.evidence import Apiserver, Evidence, Watch


def seconds(value: float) -> str:
    """Two digits: `4 ms`, `0.31 s`, `12 s`."""
    if value < 0.095:  # noqa: PLR2004 - below a tenth of a second nobody speaks of seconds
        return f"{1000 * value:.2g} ms"
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"  # noqa: PLR2004 - from here on .2g writes 1e+02


def names_of(names: Iterable[str]) -> str:
    """Each once, as people list them."""
    *first, last = sorted(set(names))
    return f"{', '.join(first)} and {last}" if first else last


def worst_of(watches: Sequence[Watch]) -> str:
    """The worst of them in figures: `pods 0.31 s after storage (P50)`."""
    worst = max(watches, key=lambda watch: watch.lateness or 0.0)
    by = f"P{worst.figure.q * 100:.0f}" if worst.figure and worst.figure.seconds == worst.lateness else "now"
    return f"{worst.name} {seconds(worst.lateness or 0.0)} late ({by})"


def others_of(evidence: Evidence, watches: Sequence[Watch]) -> str:
    """How the same watches are at the other apiservers."""
    figures = [peer.figure.seconds for watch in watches for peer in evidence.peers(watch) if peer.well and peer.figure]
    return f"; the others {seconds(median(figures))}" if figures else ""


def silence_of(apiserver: Apiserver) -> str:
    """For how long it has been silent."""
    return "so far" if math.isinf(apiserver.silent_for) else f"for {seconds(apiserver.silent_for)}"


def ticks_of(apiservers: Iterable[Apiserver]) -> str:
    """How long ticks take, and through whom: `ticks take 1.8 ms (a:1), 0.31 s (b:1)`."""
    known = {one.name: one.tick for one in apiservers if one.tick is not None}
    took = ", ".join(f"{seconds(tick)} ({name})" for name, tick in sorted(known.items()))
    return f"ticks take {took}" if took else "no tick is answered"
