"""`watchslo top`: what a daemon knows, in a terminal, as long as somebody looks."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from watchslo.app import logs
from watchslo.app.hints import hints, unready
from watchslo.app.table import draw, headline, plain_console
from watchslo.app.top.choice import Choice
from watchslo.app.top.sources import Credentials, Daemon, Measurement, Source
from watchslo.app.view import View
from watchslo.errors import ConfigError, ConnectError

START_SECONDS = 30.0  # until a measurement of our own is up
ONCE_SECONDS = 10.0  # that it then goes on before its one table
LOOK_SECONDS = 0.5
NO_CREDENTIALS = Credentials()


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line asks: of the daemon at a URL, or of a cluster by a measurement of our own."""

    url: str | None = None
    credentials: Credentials = NO_CREDENTIALS
    kubeconfig: Path | None = None
    context: str | None = None
    once: bool = False


def top(question: Question) -> None:
    """Shows it until somebody quits, or once; raises WatchsloError where there is nothing to show."""
    logs.set_up("console", "critical")
    source = _source(question)
    if question.once:
        asyncio.run(_once(source))
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal; add --once for one table")
    try:
        from watchslo.app.top.screen import show  # noqa: PLC0415 - only this needs the extra
    except ImportError:
        raise ConfigError("top needs the package textual: pip install 'watchslo[top]'; --once does without") from None
    asyncio.run(show(source))


def _source(question: Question) -> Source:
    if question.url is None:
        if question.credentials != NO_CREDENTIALS:
            raise ConfigError("--token-file, --ca-file and --insecure are for a daemon; name its URL")
        return Measurement(question.kubeconfig, question.context)
    if question.kubeconfig or question.context:
        raise ConfigError("--kubeconfig and --context are for measuring from here; leave them out, or the URL")
    return Daemon(question.url, question.credentials)


async def _once(source: Source) -> None:
    async with source:
        if isinstance(source, Measurement):
            await _until_up(source)
            await asyncio.sleep(ONCE_SECONDS)
        try:
            _print(await source.view())
        except ConnectError as error:
            raise ConnectError(f"{source.place}: {error}") from None


async def _until_up(source: Source) -> None:
    """Waits until all is measured that can be; some of it may never be."""
    waited = 0.0
    while waited < START_SECONDS and (await source.view()).starting:
        await asyncio.sleep(LOOK_SECONDS)
        waited += LOOK_SECONDS


def _print(view: View) -> None:
    console = plain_console()
    lines = Choice().of(view.lines)
    console.print(draw(lines))
    for sentence in (*unready(view), *view.causes, *hints(view)):
        console.print(sentence)
    if view.trust:
        console.print(view.trust)
    console.print(view.verdict or headline(lines))
