"""`watchslo rehearse`: starts informers in different ways, and recommends one for this cluster."""

from pathlib import Path
from typing import Literal

from watchslo.app import logs
from watchslo.app.rehearse.plan import RehearseOptions
from watchslo.app.rehearse.running import conduct
from watchslo.app.rehearse.showing import show
from watchslo.app.rehearse.trial import Trial
from watchslo.app.session import INTERRUPTED, run_on_loop
from watchslo.app.table import plain_console
from watchslo.kube.connect import connect


def rehearse(
    kubeconfig: Path | None, context: str | None, options: RehearseOptions, output: Literal["table", "json"]
) -> int:
    """Rehearse, print the results, and return the exit code; raise WatchsloError if a rehearsal is impossible."""
    options.check()
    logs.set_up("console", "error")
    connection = connect(str(kubeconfig) if kubeconfig else None, context)
    if output != "json" and connection.place:
        plain_console().print(connection.place.text, soft_wrap=True)
    trials: list[Trial] = []
    try:
        finished = run_on_loop(conduct(connection, options, trials))
    finally:
        if shown := [trial for trial in trials if trial.runs or trial.skipped or options.dry_run]:
            show(shown, options, output, connection.place)
    return 0 if finished else INTERRUPTED
