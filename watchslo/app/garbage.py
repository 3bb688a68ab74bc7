"""Keeps Python's garbage collector from stopping the event loop.

With 900 watches, a full collection takes 0.4 s, and Python starts one every few seconds. Nearly all objects are freed
without it, because they are in no cycle. So all objects that exist after an evaluation are left out of the collections
(`gc.freeze`), which then only look at newer ones. A full collection is made once an hour, and after as many watches
have ended as run, because an ended watch is in cycles. Python starts none in between: after a freeze it would look at
all readings of an evaluation, which takes 50 ms.

A request that fails leaves cycles. So that they are freed at once, and no collection looks at many objects, the newest
objects are collected at each heartbeat (`monitor/tasks/lag.py`) and at each pause of long work
(`monitor/tasks/slices.py`).
"""

import gc
import time
from collections.abc import Callable

from watchslo.snapshot import Snapshot

FULL_SECONDS = 3600.0
LEAST_ENDED = 50  # an ended watch keeps about 30 KiB
NEVER = 2**31 - 1  # collections of the middle generation until Python starts a full one


class GarbageCollection:
    """Decides what the garbage collector looks at; call `after_evaluation` every few seconds.

    `ended` returns how many watches have ended so far.
    """

    def __init__(self, ended: Callable[[], int]) -> None:
        self._ended = ended
        self._collected = 0
        self._full_at = time.monotonic() + FULL_SECONDS
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, NEVER)

    def after_evaluation(self, snapshot: Snapshot) -> None:
        """Leave all present objects out of the next collections; collect all of them first if that is due."""
        now, ended = time.monotonic(), self._ended()
        if now >= self._full_at or ended - self._collected >= max(LEAST_ENDED, len(snapshot.watches)):
            gc.unfreeze()
            gc.collect()
            self._full_at, self._collected = now + FULL_SECONDS, ended
        gc.freeze()
