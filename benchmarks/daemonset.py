"""What the profile `control-plane` costs each apiserver: one instance next to each of n apiservers on one etcd.

The requests are those that the apiservers have in their audit logs, of all instances together. Nothing is asserted.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import yaml

from tests.support import assets
from tests.support.daemon import Daemon, config_file
from tests.support.daemonset import kubeconfig, profile_of
from tests.support.high_availability import HighAvailability, Member
from watchslo.kube.client import ABSENT_NAME
from watchslo.model import FloatArray

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts:watchslo"]}, {"level": "None"}],
}
SIZES = (1, 2, 3)
STARTED_SECONDS = 45.0  # until all default watches are open and proven, and each witness is a member


def requests_of(sizes: Sequence[int], seconds: float) -> Iterator[tuple[str, str, str]]:
    """Yield for each control plane the instances, and the requests and ticks a second at each of its apiservers."""
    for size in sizes:
        with TemporaryDirectory() as name, _apiservers(Path(name), size) as lab:
            for witnesses in ("none", "auto") if size > 1 else ("auto",):
                shown = f"{size}, without witnesses" if witnesses == "none" else f"{size}"
                yield shown, *_measured(lab, Path(name), witnesses, seconds)


def _apiservers(folder: Path, count: int) -> HighAvailability:
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    flags = [f"--audit-policy-file={policy}", "--audit-log-path=-"]
    return HighAvailability(folder, assets.newest(os.environ), count=count, flags=flags)


def _measured(lab: HighAvailability, folder: Path, witnesses: str, seconds: float) -> tuple[str, str]:
    with ExitStack() as stack:
        for number, member in enumerate(lab.members):
            own = folder / f"{witnesses}-{number}"
            own.mkdir()
            config = profile_of(member.url)
            config["kubernetes"]["witnesses"] = witnesses
            daemon = Daemon(own, "--config", config_file(own, **config), "--kubeconfig", kubeconfig(lab))
            stack.enter_context(daemon)
        time.sleep(STARTED_SECONDS)
        before = _counted(lab.members)
        time.sleep(seconds)
        after = _counted(lab.members)
    requests, ticks = ((after - before) / seconds).T
    return _shown(requests), _shown(ticks)


def _shown(rates: FloatArray) -> str:
    return ", ".join(f"{rate:.1f}" for rate in rates)


def _counted(members: Sequence[Member]) -> FloatArray:
    """Return for each apiserver the requests of all instances that it has answered, and the ticks among them."""
    counts = []
    for member in members:
        lines = [line for line in member.apiserver.process.out.splitlines() if '"kind":"Event"' in line]
        counts.append((len(lines), sum(ABSENT_NAME in line and "/events?" in line for line in lines)))
    return np.array(counts, dtype=np.float64)
