"""`python -m benchmarks.reference` prints what a watch of whole objects next to that of pods costs the daemon.

Two daemons, with and without `reference`, watch the same simulated apiserver at the same time, over TLS.
"""

import time
from contextlib import ExitStack
from typing import Any

from benchmarks.measure import cpu_seconds, figure, serving, with_kubeconfig
from tests.support.daemon import Daemon

RATE = 200.0  # changes a second
WARM_SECONDS, SECONDS = 15.0, 40.0
PODS = {"resource": "pods", "name": "pods", "creation": False}


def reference() -> None:
    """Print the costs."""
    print(f"\nPods that change {RATE:.0f} times a second, with and without a watch of whole objects")
    with serving("watchslo.sim", "--port", "0") as server, ExitStack() as stack:
        server.post("/sim/workload", {"resource": "pods", "rate": RATE, "size": "full"})
        alone, both = (
            stack.enter_context(with_kubeconfig(server.kubeconfig, [PODS | {"reference": on}])) for on in (False, True)
        )
        time.sleep(WARM_SECONDS)
        before = [(cpu_seconds(daemon.process), _stream(daemon)) for daemon in (alone, both)]
        time.sleep(SECONDS)
        after = [(cpu_seconds(daemon.process), _stream(daemon)) for daemon in (alone, both)]
    spent = [now - then for (then, _), (now, _) in zip(before, after, strict=True)]
    (_, old), (_, new) = before[1], after[1]
    events = new["reference"]["events"] - old["reference"]["events"]
    size = (new["reference"]["bytes"] - old["reference"]["bytes"]) / events
    table = (new["bytes"] - old["bytes"]) / events
    figure("events", events, "")
    figure("bytes of an event as a Table, and as a whole object", table, "bytes")
    figure("  …", size, "bytes")
    figure("CPU without a reference", spent[0] / SECONDS * 100, "% of a core")
    figure("CPU with one", spent[1] / SECONDS * 100, "% of a core")
    figure("CPU of the reference", 1e6 * (spent[1] - spent[0]) / events, "us/event")
    figure("events that have a delay", new["latency"]["hops"][-1]["events"], "")
    figure("events without one", sum(new["reference"]["unmeasured"].values()), "")


def _stream(daemon: Daemon) -> Any:
    (stream,) = daemon.status()["streams"]
    return stream


if __name__ == "__main__":
    reference()
