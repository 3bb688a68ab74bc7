"""Returns memory to the system after a burst: glibc would keep the freed gaps in the heap."""

import ctypes
import os
from pathlib import Path

GROWN_BYTES = 8 * 2**20  # since the last time: a smaller gap is soon filled again
TRIM_SECONDS = 60.0  # from one trim to the next at least: an evaluation of hundreds of watches fills the gap again
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has this function, and only glibc needs it
_STATM = Path("/proc/self/statm")  # in pages: the size of the program, then its resident part (proc(5))


class HeapTrimmer:
    """Trims the heap when this process has grown: with a large heap, that stops it for up to 20 ms."""

    def __init__(self) -> None:
        self._least = 0
        self._trimmed = -TRIM_SECONDS

    def trim_if_grown(self, now: float) -> None:
        """Return freed memory to the system if this process has grown by 8 MiB since the last time.

        It is done at most once in `TRIM_SECONDS`. `now` is in monotonic seconds.
        """
        if _TRIM is None:
            return
        resident = resident_bytes()
        if resident - self._least > GROWN_BYTES and now - self._trimmed >= TRIM_SECONDS:
            _TRIM(0)
            self._trimmed = now
            self._least = resident_bytes()
        self._least = min(self._least, resident)


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
