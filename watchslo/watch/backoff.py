"""How long to wait after a failure: client-go's reflector, which apiservers are sized for."""

from collections.abc import Callable


class Backoff:
    """Delays that double from `base` to `cap`, each lengthened at random by up to itself; all in seconds.

    After `reset` seconds without a failure the next one begins at `base` again. Source: client-go 1.36,
    tools/cache/reflector.go, `defaultBackoffInit` and those after it; in the end there is one try in 30 to 60 s.
    """

    def __init__(self, random: Callable[[], float], base: float = 0.8, cap: float = 30.0, reset: float = 120.0) -> None:
        self._random = random
        self._base = base
        self._cap = cap
        self._reset = reset
        self._delay = base
        self._healthy_from = 0.0  # the end of the last wait

    def next(self, now: float, retry_after: float | None = None) -> float:
        """Return how long to wait from `now` on, never less than the server asked for."""
        if now - self._healthy_from > self._reset:
            self._delay = self._base
        wait = max(self._delay * (1.0 + self._random()), retry_after or 0.0)
        self._delay = min(2.0 * self._delay, self._cap)
        self._healthy_from = now + wait
        return wait
