"""Reads the page of one program with informers, every ten seconds."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from watchslo.config.sections.client import ClientConfig
from watchslo.informer.informed_client import InformedClient
from watchslo.informer.page import INFORMER_SERIES, STORE, parse_informers
from watchslo.kube.credentials import CredentialSource
from watchslo.kube.page_client import PageClient
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.own_metrics.line_filter import LineFilter
from watchslo.snapshot import ClientReading
from watchslo.watch.failure import Failure, Reason, because

READ_SECONDS = 10.0  # from the end of one read to the next
NO_INFORMERS = (
    f"The page has no {STORE.decode()}: Kubernetes exports it from 1.37 on, for informers with a name; other programs "
    "need the few lines of docs/concepts/clients.md."
)
GARBLED = "{} lines about informers cannot be read, and are left out."


class ClientReader:
    """Reads the page of one process until cancelled; `informed` is what its pages say.

    With an `address`, it is one of several processes behind the URL of the `config`. With `authorization: kubernetes`,
    the token of the `credentials` is sent.
    """

    def __init__(
        self, config: ClientConfig, address: str | None, credentials: CredentialSource, random: Callable[[], float]
    ) -> None:
        self.config = config
        name = f"{config.name}@{address}" if address else config.name
        self.informed = InformedClient(name, config.selected)
        self._address = address
        self._credentials = credentials if config.authorization == "kubernetes" else None
        self._random = random
        self._failures = FailureLog(structlog.get_logger().bind(client=name))

    def reading(self, now: float) -> ClientReading:
        failure = self._failures.now
        return self.informed.reading(now, failure.message if failure else None)

    async def run(self) -> None:
        """Read until cancelled."""
        of, verify = self.config, not self.config.insecure_skip_verify
        client = PageClient(of.url, self._credentials, of.ca_file, verify=verify, address=self._address)
        async with client as pages:
            await asyncio.sleep(self._random() * READ_SECONDS)  # instances do not all ask at once
            while True:
                failure = await self._read(pages)
                if failure is None:
                    self._failures.resolve()
                else:
                    self._failures.record("client_page_failed", failure)
                await asyncio.sleep(READ_SECONDS)

    async def _read(self, pages: PageClient) -> Failure | None:
        """Read the page once, and keep what it says; return what is wrong with it."""
        kept, slices = LineFilter(INFORMER_SERIES), WorkSlices()

        async def take(piece: bytes) -> None:
            kept.feed(piece)
            await slices.pause()

        times = await pages.read(take)
        if isinstance(times, Failure):
            self.informed.fail()
            return times
        kept.finish()
        page = parse_informers(kept.lines, *times)
        if not page.stores:
            self.informed.fail()
            return replace(because(Reason.GARBAGE), message=NO_INFORMERS)
        self.informed.add(page)
        return replace(because(Reason.GARBAGE), message=GARBLED.format(page.garbled)) if page.garbled else None
