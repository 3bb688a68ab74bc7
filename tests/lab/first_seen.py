"""What a daemon says of a fault that is not in the table: what it says first, and when, and its status at the end."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.support.assets import newest
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.daemon import Daemon

SECONDS = 60.0
LOOK_SECONDS = 0.5

Says = Callable[[dict[str, Any]], Iterable[str]]
"""Returns what a status says, apart from its causes."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


F = TypeVar("F", bound=Named)


@dataclass
class Seen:
    """When each thing was first said, in seconds after the fault began, and the status at its end."""

    first: dict[str, float]
    status: dict[str, Any]


def play_all(faults: Sequence[F], play: Callable[[F, ExitStack], Seen], judge: Callable[[F, Seen], bool]) -> int:
    """Play every fault, or those whose names begin with an argument; return 1 if one is judged wrong, else 0."""
    failed = False
    for fault in faults:
        if fault.name.startswith(tuple(sys.argv[1:])) or not sys.argv[1:]:
            with ExitStack() as stack:
                seen = play(fault, stack)
            _show(fault.name, seen)
            failed |= not judge(fault, seen)
    return int(failed)


def own_plane(stack: ExitStack) -> tuple[Path, ControlPlane]:
    """Start a control plane in a folder of its own."""
    folder, assets = Path(stack.enter_context(tempfile.TemporaryDirectory())), newest(os.environ)
    etcd = stack.enter_context(Etcd(folder, assets.etcd))
    return folder, stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd))


def look(daemon: Daemon, fault: AbstractContextManager[object], says: Says) -> Seen:
    """Open the context of a fault for a minute, and note when something is said first."""
    first = dict[str, float]()
    with fault:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < SECONDS:
            status = daemon.status()
            causes = [f"cause: {cause['cause']} {cause['watch'] or ''}".strip() for cause in status["causes"]]
            for text in (*causes, *says(status)):
                first.setdefault(text, passed)
            time.sleep(LOOK_SECONDS)
        return Seen(first, daemon.status())


def _show(name: str, seen: Seen) -> None:
    print(f"\n## {name} (load {os.getloadavg()[0]:.1f})")
    for text, after in seen.first.items():
        print(f"{after:5.1f} s  {text}")
    for reaction in seen.status["reactions"]:
        for quantile in reaction["quantiles"]:
            bounds = f"{quantile['lower']:.3f} to {quantile['upper'] or float('inf'):.3f} s"
            step = f"{reaction['resource']} {reaction['step']}"
            print(f"  {step:32} P{100 * quantile['q']:.0f} {quantile['estimate']:.3f} s, proven {bounds}")
    for client in seen.status["clients"]:
        print(f"  {client['client']}: pages {client['reads']}")
        for informer in client["informers"]:
            queued = f"{informer['queued']} queued"
            print(f"    {informer['resource']}: {informer['verdict']}, {informer['staleness']}, {queued}")
    for cause in seen.status["causes"]:
        print(f"  {cause['cause']}, {cause['confidence']}: {cause['evidence']}")
    sys.stdout.flush()
