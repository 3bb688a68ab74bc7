"""One apiserver: its client, what is known of it, and the totals of all its watches."""

import time
from collections import Counter

import structlog

from watchslo.clock.offset import ClockOffset, Dating
from watchslo.clock.storage_kind import StorageSetting, unproven_storage
from watchslo.kube.client import Client
from watchslo.kube.credentials import Address, CredentialSource
from watchslo.kube.limiter import Limiter
from watchslo.model import Interval
from watchslo.monitor.apiservers.counters import Outcomes
from watchslo.monitor.apiservers.withdrawal import Withdrawal
from watchslo.snapshot import Guarantee, StorageKind, TimeTravelReading
from watchslo.watch.audit import AuditResult
from watchslo.watch.closes import Closes
from watchslo.watch.responsiveness import SUSPECT_SECONDS
from watchslo.watch.strategy import StreamedLists
from watchslo.watch.watch_caches import WatchCaches


class Apiserver:
    """One apiserver, or all apiservers behind one address.

    `name` is the value of the label `apiserver`. Without an `address` requests go to that of the credentials.
    `storage` is what it reveals of its storage, and `unproven` says why its revisions prove nothing, or is None.
    `peers` is the number of apiservers behind the address, if known; `mixed` says that the number is uncertain.
    `withdrawal` is None while the cluster announces it. `closes` finds out why watches were closed, and `caches` knows
    which resources have a watch cache. `checked` is how often each guarantee was checked by watches that have ended.
    """

    def __init__(
        self, name: str, credentials: CredentialSource, limiter: Limiter, address: Address | None = None
    ) -> None:
        self.name = name
        self.client = Client(credentials, limiter, self._observe_date, name=name, address=address)
        self.outcomes = Outcomes()
        self.version: str | None = None
        self.storage = StorageKind.UNKNOWN
        self.unproven: str | None = None
        self.peers: int | None = None
        self.mixed = False
        self.withdrawal: Withdrawal | None = None
        self.time_travel = TimeTravelReading()
        self.audits: Counter[str] = Counter(dict.fromkeys(AuditResult, 0))
        self.checked: Counter[str] = Counter(dict.fromkeys(Guarantee, 0))  # of ended watches: a counter must not fall
        self.streamed_lists = StreamedLists()
        self.closes = Closes()
        self.caches = WatchCaches()
        self._open_watches: set[int] = set()
        self._offset = ClockOffset()
        self._stated: StorageSetting = "auto"
        self._log = structlog.get_logger()

    async def open(self) -> None:
        """Open the client; await this on the loop before the first request."""
        await self.client.__aenter__()

    async def close(self) -> None:
        """Close all connections."""
        await self.client.__aexit__(None, None, None)

    def recognise(self, version: str, stated: StorageSetting) -> None:
        """Take in the version and what follows from it; `stated` is what the configuration says of the storage."""
        self.version, self._stated = version, stated
        self.streamed_lists.observe_version(version)
        self._judge_storage()

    def recognise_storage(self, kind: StorageKind) -> None:
        """Note what it reveals of its storage; what was known stays if it reveals nothing now."""
        if kind is StorageKind.UNKNOWN:
            return
        if kind is StorageKind.KINE and self.storage is not kind:
            self._log.info("kine_found", apiserver=self.name)
        self.storage = kind
        self._judge_storage()

    def forget_storage(self) -> None:
        """Forget what it revealed of its storage: that was restored, or is another one now."""
        self.storage = StorageKind.UNKNOWN
        self._judge_storage()

    def _judge_storage(self) -> None:
        unproven = unproven_storage(self.version or "", self._stated, self.storage)
        if unproven is not None and unproven != self.unproven:
            self._log.warning("storage_unproven", apiserver=self.name, why=unproven)
        self.unproven = unproven

    def count_audit(self, result: AuditResult) -> None:
        self.audits[result] += 1

    def _observe_date(self, date: float, sent: float, answered: float) -> None:
        self._offset.observe(date, sent, answered, answered)

    def unresponsive_for(self, now: float) -> float | None:
        """Return for how many seconds it has sent nothing although it was asked; None if it answers."""
        return self.client.responsiveness.unresponsive_for(now)

    def stays(self, now: float) -> bool:
        """Return whether it is still watched although the cluster announces it no more; else it was not silent."""
        responsiveness = self.client.responsiveness
        is_silent = responsiveness.silence(now) >= SUSPECT_SECONDS
        if self.withdrawal is None and is_silent:
            self.withdrawal = Withdrawal(now)
        return self.withdrawal is not None and self.withdrawal.stays(
            now, is_silent=is_silent, refuses=responsiveness.refuses
        )

    @property
    def offset_steps(self) -> int:
        """How often its wall clock was set."""
        return self._offset.steps

    @property
    def offset(self) -> Interval | None:
        """How far its wall clock is ahead of ours, in seconds; None if several apiservers may answer."""
        now = time.monotonic()
        bounds = self._offset.bounds(now) if self.peers in (1, None) and not self.mixed else None
        ours = time.time() - now
        return Interval(bounds.lower - ours, bounds.upper - ours) if bounds else None

    @property
    def dating(self) -> Dating | None:
        """Converts its creation timestamps to our monotonic clock; None if several apiservers may answer."""
        return self._offset.dating(time.monotonic()) if self.peers == 1 else None

    def travelled(self, back: int, age: float) -> None:
        """Count an answer from the past: `back` revisions behind what had been seen, at least `age` seconds old."""
        totals = self.time_travel
        self.time_travel = TimeTravelReading(totals.count + 1, (totals.revisions or 0) + back, totals.seconds + age)

    def set_peers(self, peers: int | None, *, mixed: bool = False) -> None:
        """Note how many apiservers answer at this address; None if that is not known."""
        self.peers, self.mixed = peers, mixed

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return len(self._open_watches)

    def watch_opened(self, number: int) -> None:
        self._open_watches.add(number)

    def watch_ended(self, number: int) -> None:
        """Note that a watch is not open any more; it may be called again for the same watch."""
        self._open_watches.discard(number)
