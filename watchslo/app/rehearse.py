"""`watchslo rehearse`: connects to a cluster, rehearses until it ends or is interrupted, and prints the result."""

import asyncio
from pathlib import Path
from typing import Literal

from watchslo.app import logs
from watchslo.app.session import INTERRUPTED, run_on_loop, stop_signals
from watchslo.app.table import plain_console
from watchslo.kube.connect import connect
from watchslo.kube.credentials import CredentialSource
from watchslo.rehearse.options import RehearseOptions
from watchslo.rehearse.running import conduct
from watchslo.rehearse.showing import show
from watchslo.rehearse.trial import Trial


def rehearse(
    kubeconfig: Path | None, context: str | None, options: RehearseOptions, output: Literal["table", "json"]
) -> int:
    """Rehearse, print the results, and return the exit code; raise WatchsloError if a rehearsal is impossible."""
    options.check()
    logs.set_up("console", "error")
    connection = connect(str(kubeconfig) if kubeconfig else None, context)
    console = plain_console()
    if output != "json" and connection.place:
        console.print(connection.place.text, soft_wrap=True)
    trials: list[Trial] = []
    try:
        finished = run_on_loop(_conduct(connection, options, trials))
    finally:
        if shown := [trial for trial in trials if trial.runs or trial.skipped or options.dry_run]:
            show(console, shown, options, output, connection.place)
    return 0 if finished else INTERRUPTED


async def _conduct(connection: CredentialSource, options: RehearseOptions, trials: list[Trial]) -> bool:
    """Add to `trials` until all are done or a signal stops it; return False if interrupted."""
    stop = asyncio.Event()
    with stop_signals(stop):
        return await conduct(connection, options, trials, stop, plain_console(stderr=True))
