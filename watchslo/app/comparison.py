"""What `watchslo verify` compares of several apiservers: how much later events arrive, and how long lists take."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from rich.table import Table

from watchslo.app.session import run_on_loop
from watchslo.config.model import Config
from watchslo.config.values import parse_apiservers
from watchslo.errors import ConfigError
from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.connect import connect
from watchslo.kube.credentials import Address, CredentialSource
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.limiter import Limiter
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.snapshot import ExcessReading, Snapshot
from watchslo.timeline.format import ABSENT, counted, duration
from watchslo.watch.failure import Failure
from watchslo.watch.messages import ListRequest

MINUTE_SECONDS = 60.0
EVERYTHING = "*"
ROUNDS = 10  # of lists; each asks all apiservers, in turn and in both directions
PAGE = 500  # objects
REQUESTS_PER_SECOND = 20.0  # of lists, to all apiservers together
Scope = tuple[Resource, str | None]
"""A resource, and the namespace of its watch."""
Minute = Mapping[str, Sequence[ExcessReading]]
"""The excess of all watches in one minute, by apiserver."""


@dataclass(frozen=True, slots=True)
class ApiserverComparison:
    """One apiserver, compared with the one that delivered each event or listed first; all times in seconds.

    `events` were delivered by another apiserver too. `p50` and `p99` are how much later they arrived: the median of all
    minutes, and the worst minute. `page` is the median time of a page of a list, and `page_behind` how much longer it
    took than that of the fastest apiserver in the same round. None means that too little was compared.
    """

    apiserver: str
    events: int
    p50: float | None
    p99: float | None
    page: float | None
    page_behind: float | None

    @property
    def is_compared(self) -> bool:
        return self.p50 is not None

    def slower(self, tolerance: float) -> Iterator[str]:
        """Yield a sentence for each way in which it is slower than the fastest by more than `tolerance` seconds."""
        if (self.p50 or 0.0) > tolerance:
            shown, events = duration(self.p50 or 0.0), counted(self.events, "event")
            yield f"{self.apiserver} delivers {shown} later than the fastest (P50 of {events})."
        if (self.page_behind or 0.0) > tolerance:
            yield f"{self.apiserver} takes {duration(self.page_behind or 0.0)} longer for a page of a list (P50)."

    @property
    def document(self) -> dict[str, object]:
        """The comparison for JSON."""
        return {
            "apiserver": self.apiserver,
            "events": self.events,
            "behindP50": self.p50,
            "behindP99": self.p99,
            "listPage": self.page,
            "listBehind": self.page_behind,
        }


class MinutesOfExcess:
    """Keeps the excess of each whole minute of a measurement; of a shorter one, the last that is known."""

    def __init__(self) -> None:
        self._due = math.inf
        self._latest: Minute = {}
        self._minutes: list[Minute] = []

    def observe(self, snapshot: Snapshot) -> None:
        """Take note of an evaluation."""
        found: defaultdict[str, list[ExcessReading]] = defaultdict(list)
        for watch in snapshot.watches:
            if watch.behind_fastest:
                found[watch.apiserver].append(watch.behind_fastest)
        if found:
            self._latest = found
            self._due = min(self._due, snapshot.at_wall + MINUTE_SECONDS)
        if snapshot.at_wall >= self._due:
            self._minutes.append(self._latest)
            self._due = snapshot.at_wall + MINUTE_SECONDS

    def readings(self, apiserver: str) -> list[ExcessReading]:
        """Return the excess of all watches of an apiserver, in all minutes."""
        minutes = self._minutes or [self._latest]
        return [reading for minute in minutes for reading in minute.get(apiserver, ())]


Pages = Mapping[str, Sequence[float]]
"""The seconds of each page of a list by apiserver, each in the same order of rounds; NaN for one that failed."""


def compare(minutes: MinutesOfExcess, pages: Pages) -> list[ApiserverComparison]:
    """Return the comparison of each apiserver that was asked for lists."""
    fastest = [
        min((seconds for seconds in each if not math.isnan(seconds)), default=math.nan)
        for each in zip(*pages.values(), strict=True)
    ]
    found = []
    for apiserver, taken in pages.items():
        readings = minutes.readings(apiserver)
        behind = [seconds - first for seconds, first in zip(taken, fastest, strict=True) if not math.isnan(seconds)]
        found.append(
            ApiserverComparison(
                apiserver,
                events=sum(reading.events for reading in readings),
                p50=_weighted_median(readings),
                p99=max((reading.p99 for reading in readings), default=None),
                page=median(seconds for seconds in taken if not math.isnan(seconds)) if behind else None,
                page_behind=median(behind) if behind else None,
            )
        )
    return found


def _weighted_median(readings: Sequence[ExcessReading]) -> float | None:
    """Return the median of the minutes' P50, each counted as often as it has events."""
    left = sum(reading.events for reading in readings) / 2
    for reading in sorted(readings, key=lambda reading: reading.p50):
        left -= reading.events
        if left <= 0:
            return reading.p50
    return None


def urls_of(kubeconfig: Path | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the URLs of apiservers that are named by URLs, or by contexts of a kubeconfig.

    Raises:
        ConfigError: a name is no URL of an apiserver, or two are the same one.
        ConnectError: there is no such context, or it cannot be used.
    """
    found = [name if is_url(name) else run_on_loop(_url(_credentials(kubeconfig, name))) for name in names]
    try:
        return tuple(parse_apiservers(found))  # type: ignore[arg-type] # of a list, it returns a list
    except ValueError as error:
        raise ConfigError(f"--compare: {error}") from None


def is_url(name: str) -> bool:
    """Return True if a name is meant as a URL, and not as a context."""
    return "://" in name


def _credentials(kubeconfig: Path | None, context: str | None) -> CredentialSource:
    return connect(str(kubeconfig) if kubeconfig else None, context)


async def _url(credentials: CredentialSource) -> str:
    try:
        return (await credentials.access()).url
    finally:
        await credentials.close()


def listed(config: Config, kubeconfig: Path | None, context: str | None) -> Pages:
    """Return how long the first page of each watched resource takes at each apiserver of the configuration.

    No list is known if none of them answers.

    Raises:
        ConfigError: a resource is not served.
    """
    return run_on_loop(_listed(config, _credentials(kubeconfig, context)))


async def _listed(config: Config, credentials: CredentialSource) -> Pages:
    limiter = Limiter(REQUESTS_PER_SECOND)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(credentials.close)
        clients: dict[str, Client] = {}
        for url in config.kubernetes.apiservers:
            name, address = urlsplit(url).netloc, Address(url, config.kubernetes.tls_server_name)
            apiserver = Apiserver(name, credentials, limiter, address)
            clients[name] = await stack.enter_async_context(apiserver.client)
        catalogue = await _catalogue(clients.values())
        named = [watch for watch in config.watch if watch.resource != EVERYTHING]
        scopes = [(catalogue.resolve(watch.resource), watch.namespace) for watch in named] if catalogue else []
        return await _rounds(clients, scopes)


async def _catalogue(clients: Iterable[Client]) -> Catalogue | None:
    """Return the resources of the first that answers: they are of one cluster; None if none does."""
    for client in clients:
        found = await _discovered(client)
        if not isinstance(found, Failure):
            return found
    return None


async def _discovered(client: Client) -> Catalogue | Failure:
    return await Discovery(lambda: client).refresh()


async def _rounds(clients: Mapping[str, Client], scopes: Sequence[Scope]) -> Pages:
    pages: dict[str, list[float]] = {name: [] for name in clients}
    for number in range(ROUNDS):
        for scope in scopes:
            for name in [*clients][:: 1 if number % 2 else -1]:
                pages[name].append(await _seconds(clients[name], scope))
    return pages


async def _seconds(client: Client, scope: Scope) -> float:
    resource, namespace = scope
    page = await client.list_page(resource, namespace, Selectors(), ListRequest(limit=PAGE), Representation.METADATA)
    return math.nan if isinstance(page, Failure) else page.answered - page.sent


def draw(found: Sequence[ApiserverComparison]) -> Table:
    """Return the comparison as a `rich` table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("APISERVER", "EVENTS", "P50 BEHIND", "P99 BEHIND", "LIST PAGE", "LIST BEHIND"):
        table.add_column(heading, justify="left" if heading == "APISERVER" else "right")
    for comparison in found:
        times = (comparison.p50, comparison.p99, comparison.page, comparison.page_behind)
        table.add_row(
            comparison.apiserver,
            f"{comparison.events:,}",
            *(ABSENT if each is None else duration(each) for each in times),
        )
    return table
