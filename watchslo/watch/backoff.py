"""Waits after failures: those of client-go's reflector, for which apiservers are sized."""

from collections.abc import Callable


class Backoff:
    """Delays in seconds that double from `base` to `cap`; a random part of up to 100% is added to each.

    After `reset` seconds without a failure, the next delay is `base` again. With the defaults, a request that keeps
    failing is tried every 30 to 60 s. Source: client-go 1.36, tools/cache/reflector.go, `defaultBackoffInit` and the
    constants after it.
    """

    def __init__(self, random: Callable[[], float], base: float = 0.8, cap: float = 30.0, reset: float = 120.0) -> None:
        self._random = random
        self._base = base
        self._cap = cap
        self._reset = reset
        self._delay = base
        self._healthy_from = 0.0  # the end of the last wait

    def next(self, now: float, retry_after: float | None = None) -> float:
        """Return the seconds to wait from `now` on, at least the server's `retry_after`.

        Many watches get the same `retry_after` at once, so the random part is added to that too.
        """
        if now - self._healthy_from > self._reset:
            self._delay = self._base
        wait = max(self._delay, retry_after or 0.0) + self._delay * self._random()
        self._delay = min(2.0 * self._delay, self._cap)
        self._healthy_from = now + wait
        return wait
