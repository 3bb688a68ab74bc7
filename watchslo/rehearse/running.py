"""Starts the informers of `watchslo rehearse`, one after the other, within the limits."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from random import random
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.client import Client
from watchslo.kube.credentials import CredentialSource
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.limiter import Limiter
from watchslo.model import SERVICE, Reading, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.oldest_revision import try_revision
from watchslo.rehearse.apiserver_process import ProcessReading, cost_between, read_process
from watchslo.rehearse.census import take_census
from watchslo.rehearse.headroom import ANY_NAMESPACE, RehearsalRecord
from watchslo.rehearse.list_source import (
    ApiserverVersion,
    ListEvidence,
    ListOrigin,
    ListSource,
    consistent_lists,
    counted_source,
    expected_source,
    parse_version,
)
from watchslo.rehearse.options import RehearseOptions, list_objects, may_starve
from watchslo.rehearse.rehearsal import Rehearsal, rehearse_once
from watchslo.rehearse.strategies import ZERO, needs_revision, protocol
from watchslo.rehearse.trial import Trial
from watchslo.rehearse.zero_watch import rehearse_zero
from watchslo.timeline.format import counted, duration
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.headroom import FIRST, TooOld

PAUSE_SECONDS = 1.0  # between two rehearsals, so that the apiserver can collect its garbage
LOOK_SECONDS = 0.2  # between two looks whether a plugin is awaited
UNLIMITED = 1e6  # requests a second: an informer asks for the next page as soon as it has one
MOST_TOTAL_BYTES = 2 * 2**30  # of all lists with --all, which has no other limit of their number
MOST_SECONDS = 900.0  # after which --all starts no run
SECRETS = "secrets"


async def conduct(
    connection: CredentialSource, options: RehearseOptions, trials: list[Trial], stop: asyncio.Event, console: Console
) -> bool:
    """Add to `trials`, and their rehearsals one after the other; return False if `stop` was set before the end.

    The console shows the progress, if it is a terminal.
    """
    apiserver = Apiserver(SERVICE, connection, Limiter(UNLIMITED))
    with _progress(console) as progress:
        async with apiserver.client:
            naming = asyncio.create_task(_name_awaited(connection, progress))
            try:
                return await _unless(stop, RehearsalRun(apiserver.client, options, progress).run(trials))
            finally:
                naming.cancel()


async def _name_awaited(connection: CredentialSource, progress: Progress) -> None:
    """Show which credentials are awaited, while they are: their plugin may wait for a login."""
    task = progress.add_task("", total=None, visible=False)
    while True:
        awaited = connection.awaited
        progress.update(task, description=awaited or "", visible=awaited is not None)
        await asyncio.sleep(LOOK_SECONDS)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run the work until it ends or `stop` is set; return whether it ended by itself."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    return not working.cancelled()


def _progress(console: Console) -> Progress:
    console.quiet = not console.is_terminal  # otherwise it would print an empty line
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


class RehearsalRun:
    """All rehearsals of one command."""

    def __init__(self, client: Client, options: RehearseOptions, progress: Progress) -> None:
        self._client = client
        self._options = options
        self._progress = progress
        self._version: ApiserverVersion | None = None
        self._done = 0

    async def run(self, trials: list[Trial]) -> None:
        """Check everything before the first rehearsal, and rehearse what is within the limits."""
        catalogue = await Discovery(lambda: self._client).refresh()
        if isinstance(catalogue, Failure):
            raise ConnectError(catalogue.message)
        trials += await self._prepare(catalogue)
        self._announce(trials)
        if self._options.dry_run:
            return
        version = await self._client.version()
        self._version = None if isinstance(version, Failure) else parse_version(version)
        deadline = time.monotonic() + MOST_SECONDS
        for trial in trials:
            if self._options.every and trial.skipped is None:
                trial.skipped = self._beyond(trials, trial, deadline)
            if trial.skipped is None:
                await self._rehearse_all(trial, deadline)

    # Before the first rehearsal

    async def _prepare(self, catalogue: Catalogue) -> list[Trial]:
        """Check all resources: they exist, may be listed, and are not too large."""
        options = self._options
        if not options.every:
            found = dict.fromkeys(catalogue.resolve(name) for name in options.resources)
            return [await self._examine(resource) for resource in found]
        trials = [await self._examine_any(resource) for resource in catalogue.expand()]
        return sorted(trials, key=lambda trial: (trial.skipped is not None, -trial.objects))

    async def _examine(self, resource: Resource) -> Trial:
        """Return the trial of a resource; raise ConfigError if it cannot be rehearsed."""
        options = self._options
        sizes = list_objects(options.chosen)
        census = await take_census(self._client, resource, options.namespace, sizes=sizes)
        if isinstance(census, Failure):
            raise _refused(resource, census)
        if census.size > options.max_bytes:
            raise _too_large(resource, census.size)
        return Trial(resource, census, options.chosen, options.repeat)

    async def _examine_any(self, resource: Resource) -> Trial:
        """Return the trial of one of all resources, which may be skipped."""
        if (resource.group, resource.plural) == ("", SECRETS):
            return Trial(resource, skipped=f"secrets are read only if they are named: watchslo rehearse {SECRETS}")
        try:
            trial = await self._examine(resource)
        except ConfigError as error:
            return Trial(resource, skipped=_reason(resource, error))
        if not trial.objects:
            trial.skipped = "there are no objects"
        return trial

    def _announce(self, trials: Sequence[Trial]) -> None:
        """Say on a terminal what is about to happen."""
        due = [trial for trial in trials if trial.skipped is None]
        runs, size = sum(len(trial.planned) for trial in due), sum(trial.expected_size for trial in due)
        text = f"{counted(runs, 'run')} of {counted(len(due), 'resource')}, about {decimal(size)} of objects in total"
        self._progress.console.print(f"{text}.")
        for trial in due:
            if may_starve(trial.strategies, trial.objects):
                self._progress.console.print(f"{trial.resource.key}: a streamed list may delay its other watches.")
        self._task = self._progress.add_task("", total=runs)

    # Rehearsing

    def _beyond(self, trials: Sequence[Trial], trial: Trial, deadline: float) -> str | None:
        """Return why a resource is beyond the limits of all, or None."""
        if time.monotonic() >= deadline:
            return f"--all starts no run after {duration(MOST_SECONDS)}; name it to rehearse it"
        received = sum(run.size for earlier in trials for run in earlier.runs)
        if received + trial.expected_size > MOST_TOTAL_BYTES:
            return f"the lists of --all would exceed {decimal(MOST_TOTAL_BYTES)} in total; name it to rehearse it"
        return None

    async def _rehearse_all(self, trial: Trial, deadline: float) -> None:
        record = RehearsalRecord(self._client, trial.resource, self._options.namespace)
        await record.begin()
        uncached = await self._has_no_cache(trial.resource)
        reading_cost = await self._cost_of_reading(trial.resource)
        for strategy in trial.planned:
            if self._options.every and time.monotonic() >= deadline:
                trial.skipped = self._beyond([], trial, deadline)
                break
            self._progress.update(self._task, description=f"{trial.resource.key}: {strategy}", completed=self._done)
            await asyncio.sleep(PAUSE_SECONDS if self._done else 0.0)
            revision = await self._delivered_revision(trial.resource) if needs_revision(strategy) else 0
            before = await read_process(self._client, trial.resource)
            run = await self._start(strategy, trial, revision)
            after = await read_process(self._client, trial.resource)
            self._done += 1
            if run.failure and run.hopeless:
                self._stop(trial, _refused(trial.resource, run.failure))
                break
            source = _NO_CACHE if uncached else self._source(trial.resource, run, before, after)
            trial.runs.append(replace(run, cost=cost_between(before, after).without(reading_cost), source=source))
            await record.note()
            if run.size > self._options.max_bytes and not trial.is_complete:
                self._stop(trial, _too_large(trial.resource, run.size))
                break
        trial.headroom = await record.end()

    async def _start(self, strategy: str, trial: Trial, revision: int) -> Rehearsal:
        resource, namespace = trial.resource, self._options.namespace
        if strategy == ZERO:
            return await rehearse_zero(self._client, resource, namespace, trial.objects)
        return await rehearse_once(protocol(strategy, revision), self._client, resource, namespace, random)

    async def _delivered_revision(self, resource: Resource) -> int:
        """Return the revision that a watch would have reached by now; 0 if it is unknown, for a list of any revision.

        It is the watch cache's: it can be older than etcd's, which a cache of old versions may not reach for minutes.
        """
        reading = await self._client.read_cache(resource, self._options.namespace or ANY_NAMESPACE)
        return reading.revision if isinstance(reading, Reading) else 0

    def _stop(self, trial: Trial, why: ConfigError) -> None:
        """Raise the error, or skip the rest of the trial if it is one of all resources."""
        if not self._options.every:
            raise why
        trial.skipped = _reason(trial.resource, why)

    async def _has_no_cache(self, resource: Resource) -> bool:
        """Return True if etcd itself refuses an old revision: then the resource has no watch cache."""
        namespace = self._options.namespace or ANY_NAMESPACE
        outcome = await try_revision(self._client, resource, namespace, FIRST, "detect_cache")
        return isinstance(outcome, TooOld) and outcome.by_storage

    async def _cost_of_reading(self, resource: Resource) -> float:
        """Return the CPU seconds of one read of the metrics, which are part of each rehearsal's figures."""
        first = await read_process(self._client, resource)
        if isinstance(first, str):
            return 0.0
        return cost_between(first, await read_process(self._client, resource)).cpu

    def _source(
        self, resource: Resource, run: Rehearsal, before: ProcessReading | str, after: ProcessReading | str
    ) -> ListSource | None:
        if isinstance(before, ProcessReading) and isinstance(after, ProcessReading) and before.started == after.started:
            found = counted_source(before.lists, after.lists, run.pages, consistent_lists(run.by))
            if found is not None:
                return found
        return expected_source(run.by, run.pages, self._version, cached=resource.usually_cached)


_NO_CACHE = ListSource(ListOrigin.ETCD, ListEvidence.NO_CACHE)


def _refused(resource: Resource, failure: Failure) -> ConfigError:
    if failure.reason is Reason.FORBIDDEN:
        return ConfigError(
            f"{resource.key}: {failure.message} A rehearsal needs the verbs list and watch, as informers do."
        )
    return ConfigError(f"{resource.key}: {failure.message}")


def _too_large(resource: Resource, size: int) -> ConfigError:
    """Return the error for a list of this size: an estimate, or what a first run has received."""
    return ConfigError(
        f"{resource.key}: a list of all objects has about {decimal(size)}, and each rehearsal lists them; "
        f"pass --max-bytes {_rounded_up(size)} if the apiserver can handle that"
    )


def _reason(resource: Resource, error: ConfigError) -> str:
    """Return an error about a resource as the end of a sentence that names it."""
    return str(error).removeprefix(f"{resource.key}: ").rstrip(".")


def _rounded_up(size: int) -> str:
    return f"{-(-size // 2**20)}Mi"
