"""`python -m benchmarks.pod FOLDER watchslo run …` runs watchslo as in a pod, with the service account in FOLDER."""

import sys
from functools import partial
from pathlib import Path

from watchslo import cli
from watchslo.app.imports import hidden

with hidden("rich"):  # as `run` does
    from watchslo.app import session
    from watchslo.kube.connect import connect

if __name__ == "__main__":
    folder, *sys.argv = sys.argv[1:]
    vars(session)["connect"] = partial(
        connect, service_account=Path(folder)
    )  # only a kubelet can mount the usual folder
    cli.main()
