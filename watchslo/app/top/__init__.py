"""`watchslo top`: shows a daemon, or a local measurement, in a terminal."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from watchslo.app import logs
from watchslo.app.details import written
from watchslo.app.exit_codes import GOOD, UNKNOWN
from watchslo.app.hints import hints, unready
from watchslo.app.http_endpoint import NO_CREDENTIALS, DaemonCredentials
from watchslo.app.measurement import PATIENCE
from watchslo.app.table import plain_console, print_tables
from watchslo.app.terminal import NOT_YET, View
from watchslo.app.top.choice import Choice
from watchslo.app.top.sources import Daemon, Measurement, Source
from watchslo.errors import ConfigError, ConnectError, install_extra
from watchslo.monitor.readiness import StartState
from watchslo.timeline.format import part_note

ONCE_SECONDS = 10.0  # of measurement before the single table of --once
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class TopOptions:
    """Options of the command line; without a URL, top measures the cluster itself.

    With `watch`, the name of a watch, `once` prints the details of that watch instead of the table.
    """

    url: str | None = None
    credentials: DaemonCredentials = NO_CREDENTIALS
    kubeconfig: Path | None = None
    context: str | None = None
    once: bool = False
    watch: str | None = None


def top(options: TopOptions) -> int:
    """Show the screen until the user quits, or print one table; return the exit code.

    Raises WatchsloError if there is nothing to show.
    """
    logs.set_up("console", "critical")
    source = _source(options)
    if options.once:
        return asyncio.run(_once(source, options.watch))
    if options.watch:
        raise ConfigError("--watch needs --once; on the screen, choose a watch with the arrow keys and press Enter")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal; add --once for one table")
    try:
        from watchslo.app.top.screen import show  # noqa: PLC0415 - only the screen needs the extra `top`
    except ImportError:
        raise ConfigError(f"top needs the package textual: {install_extra('top')}; --once works without") from None
    asyncio.run(show(source))
    return 0


def _source(options: TopOptions) -> Source:
    if options.url is None:
        if options.credentials != NO_CREDENTIALS:
            raise ConfigError("--token-file, --ca-file and --insecure are for a daemon; add its URL")
        return Measurement(options.kubeconfig, options.context)
    if options.kubeconfig or options.context:
        raise ConfigError("--kubeconfig and --context are for a local measurement; remove them, or the URL")
    return Daemon(options.url, options.credentials)


async def _once(source: Source, watch: str | None) -> int:
    async with source:
        if isinstance(source, Measurement):
            plain_console().print(source.place, soft_wrap=True)
            await asyncio.sleep(ONCE_SECONDS if await _until_up(source) else 0.0)
        try:
            if watch:
                await _print_details(source, watch)
                return 0
            view = await source.view()
        except ConnectError as error:
            raise ConnectError(f"{source.place}: {error}") from None
    _print(view)
    return GOOD if _is_open(view) else UNKNOWN


async def _until_up(source: Measurement) -> bool:
    """Wait until all watches are open, but not for what may never come; return whether any watch is open."""
    waited = 0.0
    while (state := source.start) is StartState.LOGIN or waited < PATIENCE.get(state, 0.0):
        await asyncio.sleep(LOOK_SECONDS)
        waited = 0.0 if state is StartState.LOGIN else waited + LOOK_SECONDS
    return _is_open(await source.view())


def _is_open(view: View) -> bool:
    """Return True if any watch is open."""
    return any(line.up for line in view.lines)


async def _print_details(source: Source, watch: str) -> None:
    found = await source.details(watch)
    if not found:
        raise ConnectError(f"there is no watch {watch}; watchslo top --once lists the watches")
    plain_console().print(Text("\n\n").join(map(written, found)), soft_wrap=True)


def _print(view: View) -> None:
    console = plain_console()
    print_tables(console, view, Choice().of(view.lines))
    for sentence in (*unready(view), *view.causes, *hints(view)):
        console.print(sentence)
    for doubt in filter(None, (view.trust, part_note(view.part, view.elsewhere))):
        console.print(doubt)
    console.print(view.verdict or NOT_YET)
