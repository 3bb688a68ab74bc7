"""`python -m benchmarks.pod FOLDER watchslo run …`: watchslo, in a pod whose service account is mounted in FOLDER."""

import sys
from functools import partial
from pathlib import Path

from watchslo import cli
from watchslo.app import session
from watchslo.kube.connect import connect

if __name__ == "__main__":
    folder, *sys.argv = sys.argv[1:]
    vars(session)["connect"] = partial(connect, service_account=Path(folder))  # only a kubelet can mount it for us
    cli.main()
