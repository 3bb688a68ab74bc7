"""Whether an apiserver that the cluster announces no more is still watched. Pure.

An apiserver that hangs cannot renew its lease, so the others withdraw its address after 15 s. Its open connections stay
open, and clients that are configured with its address, as those on its node, still wait for it. Their outage is not
over, so it is not forgotten.
"""

STAYS_SECONDS = 300.0
"""After that, it is taken for a machine that was removed."""
RETURNS_SECONDS = 30.0
"""An apiserver that answers again is announced within 10 s; until then it is not taken for another one."""


class Withdrawal:
    """The withdrawal of a silent apiserver at `since`, in monotonic seconds."""

    def __init__(self, since: float) -> None:
        self.since = since
        self._silent_at = since

    def stays(self, now: float, *, is_silent: bool, refuses: bool) -> bool:
        """Return whether it is still watched: it leaves once it refuses connections, or has answered for a while."""
        if is_silent:
            self._silent_at = now
        return not refuses and now < min(self.since + STAYS_SECONDS, self._silent_at + RETURNS_SECONDS)
