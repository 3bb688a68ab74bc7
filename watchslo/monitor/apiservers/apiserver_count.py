"""Counts the apiservers of the cluster, and finds addresses that hide several of them."""

import time

import structlog

from watchslo.config.sections.kubernetes import KubernetesConfig
from watchslo.kube.apiservers import LEASE_SECONDS, count_apiservers, number_of_apiservers
from watchslo.model import SERVICE
from watchslo.monitor.apiservers.apiserver_set import ApiserverSet
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.monitor.tasks.time_limit import with_time_limit
from watchslo.watch.failure import Action, Failure
from watchslo.watch.missing_right import MissingRight


class ApiserverCount:
    """Counts apiservers every `refresh` seconds, because their number seldom changes.

    It owns when to count next, the last number of leases, which stays if they cannot be read for a moment, and whether
    addresses hide apiservers. The result goes to the `ApiserverSet`. `is_expected` says that no lease was alive or that
    the first read was refused: an apiserver that has just started may have one soon.
    """

    def __init__(self, config: KubernetesConfig, apiservers: ApiserverSet, refresh: float) -> None:
        self._config = config
        self._apiservers = apiservers
        self.is_expected = False
        self._refresh = refresh
        self._due = 0.0
        self._hidden = False
        self._leases = 0
        self._log = structlog.get_logger()
        self._failures = FailureLog(self._log)
        self._right = MissingRight()

    def count_soon(self) -> None:
        """Count at the next call of `count_if_due`: the members have changed."""
        self._due = 0.0

    async def count_if_due(self, announced: tuple[str, ...], jitter: float) -> None:
        """Count if it is time; `announced` are the addresses that apiservers announce."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._refresh * jitter
            await self._count(announced)

    async def _count(self, announced: tuple[str, ...]) -> None:
        """Count the leases that apiservers keep, or else their addresses; then note the peers of each address."""
        found = await with_time_limit(count_apiservers(self._apiservers.front.client))
        if not isinstance(found, Failure):
            self._failures.resolve()
            self._right.resolve()
            self._leases = found or 0
            is_doubtful = False
        else:
            self._failures.record("apiservers_uncounted", found)
            is_proven = self._right.is_proven(found, time.monotonic())
            self._leases = 0 if is_proven else self._leases
            is_doubtful = found.action is Action.WAIT and not is_proven
        servers = number_of_apiservers(len(announced), self._leases)
        self.is_expected = is_doubtful or (servers is None and not isinstance(found, Failure))
        if self.is_expected:
            self._due = min(self._due, time.monotonic() + LEASE_SECONDS)
        self._apiservers.set_servers(servers)
        if servers and servers <= len(announced) and self._apiservers.is_direct(announced):
            self._apiservers.service.set_peers(1)
        each = {name: apiserver for name, apiserver in self._apiservers.members.items() if name != SERVICE}
        more = servers is not None and bool(each) and servers > len(each) and not self._is_of(announced)
        self._judge(servers, more=more, addresses=len(each))
        mixed = self._hidden and self._config.apiservers == "each"  # else some may just not be configured
        self._note_witnesses(servers, len(announced))
        for apiserver in each.values():
            if mixed and len(each) == 1:  # all apiservers are behind the only address
                peers = servers
            elif more:  # which addresses hide the surplus is unknown
                peers = None
            else:  # each address is one apiserver, if their number is known
                peers = 1 if servers else None
            apiserver.set_peers(peers, mixed=mixed)

    def _note_witnesses(self, servers: int | None, announced: int) -> None:
        """Note that each witness is one apiserver, unless an announced address may hide others."""
        surplus = servers is None or servers > announced
        for witness in self._apiservers.witnesses.all.values():
            witness.set_peers(None if surplus else 1)
            if surplus:  # it may be the lease of an apiserver that has left
                self._due = min(self._due, time.monotonic() + LEASE_SECONDS)

    def _is_of(self, announced: tuple[str, ...]) -> bool:
        """Return True if the configured addresses are among several announced ones: each is then one apiserver."""
        urls = self._config.apiservers
        return isinstance(urls, tuple) and len(announced) > 1 and {*urls} <= {*announced}

    def _judge(self, servers: int | None, *, more: bool, addresses: int) -> None:
        """Log that addresses hide apiservers, unless the surplus may be the lease of one that has left."""
        now = time.monotonic()
        hidden = more and now >= self._apiservers.left_at + LEASE_SECONDS
        if more and not (hidden and self._hidden):
            self._due = now + LEASE_SECONDS
        if hidden and not self._hidden:
            self._log.warning("apiservers_hidden", addresses=addresses, apiservers=servers)
        self._hidden = hidden
