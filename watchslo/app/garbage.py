"""Keeps Python's garbage collector from stopping the event loop.

With 900 watches, a full collection takes 0.4 s, and Python starts one every few seconds. Nearly all objects are freed
without it, because they are in no cycle. So all objects that exist after an evaluation are left out of the collections
(`gc.freeze`), which then only look at newer ones, and a full collection is made once an hour. Python starts none in
between: after a freeze it would look at all readings of an evaluation, which takes 50 ms.

A request that fails leaves cycles. So that they are freed at once, and no collection looks at many objects, the newest
objects are collected at each heartbeat (`monitor/lag.py`) and each pause of long work (`monitor/slices.py`).
"""

import gc
import time

FULL_SECONDS = 3600.0
NEVER = 2**31 - 1  # collections of the middle generation until Python starts a full one


class GarbageCollection:
    """Decides what the garbage collector looks at; call `after_evaluation` every few seconds."""

    def __init__(self) -> None:
        self._full_at = time.monotonic() + FULL_SECONDS
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, NEVER)

    def after_evaluation(self, _: object) -> None:
        """Leave all present objects out of the next collections; collect all of them first if an hour has passed."""
        now = time.monotonic()
        if now >= self._full_at:
            gc.unfreeze()
            gc.collect()
            self._full_at = now + FULL_SECONDS
        gc.freeze()
