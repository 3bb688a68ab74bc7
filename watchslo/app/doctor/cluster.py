"""Checks the cluster with the credentials of the daemon: addresses, clocks, rights and monitors."""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from watchslo.app.doctor.addresses import (
    AddressResult,
    address_findings,
    peer_findings,
    storage_findings,
    tcp_reach,
)
from watchslo.app.doctor.clocks import (
    choose_ticks,
    clock_findings,
    compare_revisions,
    order_findings,
    watch_ticks,
)
from watchslo.app.doctor.findings import DeploymentFinding, problem, unchecked, warning
from watchslo.app.doctor.monitors import monitor_findings, read_operator_objects
from watchslo.app.doctor.rights import required_rights, review_rights, rights_findings
from watchslo.config.model import Config
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.apiservers import count_apiservers, read_addresses, socket_of
from watchslo.kube.client import Client
from watchslo.kube.credentials import CredentialSource
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.limiter import Limiters
from watchslo.model import SERVICE, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.apiserver_set import VERSION_SECONDS, ApiserverSet
from watchslo.monitor.apiservers.witnesses import unwatched
from watchslo.monitor.assignment.storage_prober import find_kind
from watchslo.monitor.assignment.tick_planner import NAMESPACES_EACH
from watchslo.monitor.protocol.desired import DesiredWatches, desired_watches
from watchslo.monitor.tasks.time_limit import with_time_limit
from watchslo.rbac.permissions import required_permissions
from watchslo.rbac.watched_resources import watch_permissions
from watchslo.rules.pack import rule_groups
from watchslo.rules.settings import RuleSettings
from watchslo.snapshot import ApiserverRole, StorageKind
from watchslo.timeline.format import counted, some_of
from watchslo.watch.failure import Failure, Reason

CHECK_SECONDS = 12.0  # for one check; those of a cluster together take about a minute at most
DISCOVERY_SECONDS = 20.0  # without aggregated discovery, there are about 60 requests, and some groups may hang
RIGHTS_SECONDS = 20.0  # "*" needs hundreds of reviews, and `limits.requestsPerSecond` applies to them too
UNASKED = ("resources", "ticks", "rights", "monitor")
"""The subjects that need an answering apiserver."""
SILENT = frozenset({Reason.UNREACHABLE, Reason.TIMEOUT})
"""Failures for which TCP shows whether packets are dropped."""


@dataclass(frozen=True, slots=True)
class AskedApiserver:
    """An open apiserver, its address, and what it is asked for."""

    apiserver: Apiserver
    url: str
    role: ApiserverRole


async def limited(
    subject: str, check: Awaitable[Iterable[DeploymentFinding]], seconds: float = CHECK_SECONDS
) -> list[DeploymentFinding]:
    """Return the findings of a check, or why it could not be made."""
    try:
        async with asyncio.timeout(seconds):
            return [*await check]
    except TimeoutError:
        return [unchecked(subject, f"This took longer than {seconds:g} s.", "Try again when the server is less busy.")]
    except ConnectError as error:
        return [unchecked(subject, f"Not known: {error}.")]


class ClusterChecks:
    """All checks that ask apiservers; each apiserver gets at most the configured requests per second."""

    def __init__(self, config: Config, credentials: CredentialSource, namespace: str) -> None:
        self._config = config
        self._credentials = credentials
        self._namespace = namespace
        limits = config.limits
        self._apiservers = ApiserverSet(
            config,
            credentials,
            Limiters(limits.requests_per_second, limits.resumes_per_second),
            lambda: None,
        )
        self._stack = contextlib.AsyncExitStack()

    async def findings(self) -> list[DeploymentFinding]:
        """Ask the cluster; nothing but access reviews is sent to it."""
        try:
            await self._credentials.access()
        except ConnectError as error:
            return [problem("credentials", f"{error}.", "Correct the kubeconfig or the service account.")]
        async with self._apiservers.opened(), self._stack:
            first = await self._configured()
            results = await self._address_results(first)
            if not any(result.answers for result in results):
                why = "No apiserver answers."
                return [*address_findings(results), *(unchecked(subject, why) for subject in UNASKED)]
            client = next(
                asked.apiserver.client for asked, result in zip(first, results, strict=True) if result.answers
            )
            announced, leases = await asyncio.gather(
                with_time_limit(read_addresses(client), VERSION_SECONDS),
                with_time_limit(count_apiservers(client), VERSION_SECONDS),
            )
            revealed = await self._revealed_storage(client)
            urls = () if isinstance(announced, Failure) else announced
            wanted = self._config.kubernetes.apiservers
            if wanted != "each" and self._apiservers.is_direct(urls):
                wanted = urls  # the address of the credentials is that of one of them
            elif self._apiservers.is_direct(urls):
                first = [replace(asked, role=ApiserverRole.MEMBER) for asked in first]
            askable = await self._apiservers.askable(urls)
            others = [] if askable is None else await self._announced(urls, first)
            results += await self._address_results(others)
            found = [
                *address_findings(results),
                *storage_findings(results, self._config.clock.storage, revealed),
                *peer_findings(wanted, announced, leases, is_verified=askable is not None),
            ]
            answering = [asked for asked, result in zip([*first, *others], results, strict=True) if result.answers]
            single = [asked.apiserver for asked in answering if asked.role is not ApiserverRole.SERVICE]
            return [*found, *await self._ask(single or [asked.apiserver for asked in answering])]

    async def _revealed_storage(self, client: Client) -> StorageKind | Failure:
        """Ask what storage an apiserver has, as the daemon does: only if it is neither stated nor forbidden."""
        if not self._config.probes_storage:
            return StorageKind.UNKNOWN
        return await with_time_limit(self._storage_kind(client))

    async def _storage_kind(self, client: Client) -> StorageKind | Failure:
        """Ask in the first namespace that permits it."""
        found: StorageKind | Failure = StorageKind.UNKNOWN
        for namespace in self._config.tick_namespaces[:NAMESPACES_EACH]:
            found = await find_kind(client, namespace)
            if not isinstance(found, Failure) or found.reason is not Reason.FORBIDDEN:
                break
        return found

    async def _configured(self) -> list[AskedApiserver]:
        """Return the apiservers that are known without a request: the service, or those of the configuration."""
        wanted = self._config.kubernetes.apiservers
        if isinstance(wanted, tuple):
            members = self._apiservers.members
            return [AskedApiserver(members[urlsplit(url).netloc], url, ApiserverRole.MEMBER) for url in wanted]
        role = ApiserverRole.SERVICE if wanted == "each" else ApiserverRole.MEMBER
        return [AskedApiserver(self._apiservers.service, (await self._credentials.access()).url, role)]

    async def _announced(self, urls: tuple[str, ...], known: Sequence[AskedApiserver]) -> list[AskedApiserver]:
        """Open and return the announced apiservers that the daemon would ask in addition to those that are known."""
        if self._config.kubernetes.apiservers == "each":
            asked = {socket_of(earlier.url) for earlier in known}
            return [await self._opened(url, ApiserverRole.MEMBER) for url in urls if socket_of(url) not in asked]
        if not self._config.wants_witnesses:
            return []
        others = unwatched(urls, [earlier.apiserver.name for earlier in known], self._credentials.url)
        return [await self._opened(url, ApiserverRole.WITNESS) for url in others]

    async def _opened(self, url: str, role: ApiserverRole) -> AskedApiserver:
        apiserver = self._apiservers.new_apiserver(url)
        await apiserver.open()
        self._stack.push_async_callback(apiserver.close)
        return AskedApiserver(apiserver, url, role)

    async def _address_results(self, asked: Iterable[AskedApiserver]) -> list[AddressResult]:
        return await asyncio.gather(*map(self._address_result, asked))

    async def _address_result(self, asked: AskedApiserver) -> AddressResult:
        answer = await with_time_limit(asked.apiserver.client.version(), VERSION_SECONDS)
        reach = None
        is_silent = isinstance(answer, Failure) and answer.reason in SILENT
        if is_silent and (await self._credentials.access()).proxy.for_url(asked.url) is None:
            reach = await tcp_reach(asked.url)
        name = f"{SERVICE} ({asked.url})" if asked.apiserver.name == SERVICE else asked.apiserver.name
        return AddressResult(name, asked.url, asked.role, answer, reach)

    async def _ask(self, apiservers: Sequence[Apiserver]) -> list[DeploymentFinding]:
        """Check everything that needs an answering apiserver; the clocks alone, as other requests would delay ticks."""
        client = apiservers[0].client
        catalogue = await with_time_limit(Discovery(lambda: client).refresh(), DISCOVERY_SECONDS)
        if isinstance(catalogue, Failure):
            why = f"What the cluster serves is not known. {catalogue.message}"
            remedy = "Nothing can be measured without it: look at `kubectl get --raw /apis`."
            found = [problem("resources", why, remedy), unchecked("rights", why)]
            return [*found, *await limited("ticks", self._clocks(apiservers, []))]
        watched = [(desired.resource, desired.watch.namespace) for desired in self._desired(catalogue).watches.values()]
        found = [*self._resource_findings(catalogue), *await limited("ticks", self._clocks(apiservers, watched))]
        for findings in await asyncio.gather(
            limited("rights", self._rights(apiservers[0], catalogue), RIGHTS_SECONDS),
            limited("monitor", self._monitors(apiservers[0])),
        ):
            found += findings
        return found

    def _desired(self, catalogue: Catalogue) -> DesiredWatches:
        return desired_watches(self._config, catalogue, max(1, len(self._apiservers.members)))

    def _resource_findings(self, catalogue: Catalogue) -> Iterable[DeploymentFinding]:
        """Yield which configured resources the cluster does not serve, and whether the limit leaves out watches."""
        desired = self._desired(catalogue)
        for sentence in desired.missing:
            yield problem("resources", f"{sentence}.", "Correct `watch` in the configuration.")
        if not (desired.watches or desired.missing or desired.elsewhere):
            yield problem(
                "resources", "The cluster serves nothing of what is configured.", "Name resources of it in `watch`."
            )
        if desired.left_out:
            yield problem(
                "resources",
                f"{counted(desired.left_out, 'watch')} beyond `limits.watches` will not run.",
                "Raise `limits.watches`, add instances (`shard`), or exclude resources.",
            )
        for why in dict.fromkeys(group.why for group in catalogue.incomplete):
            names = some_of([group.name for group in catalogue.incomplete if group.why == why])
            yield warning(
                "resources", f"Not all resources of {names} are known. {why}", "Look at `kubectl get apiservices`."
            )

    async def _clocks(
        self, apiservers: Sequence[Apiserver], watched: Sequence[tuple[Resource, str | None]]
    ) -> list[DeploymentFinding]:
        config = self._config
        resource, namespace = await choose_ticks(apiservers[0], watched, config.tick_namespaces)
        ticks = await watch_ticks(apiservers, resource, namespace)
        order = await compare_revisions(apiservers, resource, watched, namespace)
        threshold = min(config.objective_of(watch).threshold for watch in config.watch)
        return [*clock_findings(ticks, threshold), *order_findings(order)]

    async def _rights(self, apiserver: Apiserver, catalogue: Catalogue) -> list[DeploymentFinding]:
        try:
            watched = [*watch_permissions(self._config, catalogue)]
        except ConfigError as error:
            return [unchecked("rights", f"{error}.")]
        needed = required_rights(required_permissions(self._config, watched))
        return [*rights_findings(needed, await review_rights(apiserver.client, needed))]

    async def _monitors(self, apiserver: Apiserver) -> list[DeploymentFinding]:
        groups = [group.name for group in rule_groups(self._config, RuleSettings())]
        return [*monitor_findings(await read_operator_objects(apiserver.client, self._namespace, groups))]
