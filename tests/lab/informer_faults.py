"""`python -m tests.lab.informer_faults` makes the caches of a real client stale, and prints what watchslo makes of it.

The client follows pods and configmaps with client-go 1.37; both change five times a second. Each fault has a control
plane of its own. The exit code is 1 if another cause is named than the fault has.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from tests.lab.first_seen import Seen, look, own_plane, play_all
from tests.support.assets import INFORMERS, find
from tests.support.control_plane import ControlPlane, Port
from tests.support.daemon import Daemon, Proxy, config_file
from tests.support.process import Process
from tests.support.writer import configmap
from watchslo.snapshot import Cause

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
POD_SPEC = {"containers": [{"name": "main", "image": "example.invalid/none:1"}]}
SETTLED_SECONDS = 25.0
GAP_SECONDS = 0.2
DELAY = "constant 2s"
OF_CLIENTS = {Cause.CLIENT_CONNECTION, Cause.CLIENT_SLOW}


@dataclass(frozen=True)
class InformerFault:
    """A fault: `law` delays and `held` blocks the `link` of the client or of watchslo; `flags` are the client's."""

    name: str
    causes: frozenset[Cause] = frozenset()
    link: str = ""
    law: str = ""
    held: bool = False
    flags: tuple[str, ...] = ()
    paused: bool = False


FAULTS = (
    InformerFault("none"),
    InformerFault("2 s before the client", frozenset({Cause.CLIENT_CONNECTION}), link="client", law=DELAY),
    InformerFault("connection of the client held up", frozenset({Cause.CLIENT_CONNECTION}), link="client", held=True),
    InformerFault("index function takes 500 ms", frozenset({Cause.CLIENT_SLOW}), flags=("-index=500ms",)),
    InformerFault("handler takes 500 ms", flags=("-handler=500ms",)),
    InformerFault("client stands still", paused=True),
    InformerFault("2 s before watchslo", link="watchslo", law=DELAY),
)


def main() -> int:
    return play_all(FAULTS, play, is_right)


def is_right(fault: InformerFault, seen: Seen) -> bool:
    return {cause["cause"] for cause in seen.status["causes"]} & OF_CLIENTS == fault.causes


def play(fault: InformerFault, stack: ExitStack) -> Seen:
    folder, plane = own_plane(stack)
    links = {name: stack.enter_context(Proxy(folder, name, plane.url)) for name in ("client", "watchslo")}
    users = {name: plane.kubeconfig(name, server=link.url) for name, link in links.items()}
    port = Port()
    listen = f"127.0.0.1:{port.number}"
    connected = f"-kubeconfig={users['client']}"
    client = Process(folder, "informers", [find(os.environ, INFORMERS), connected, f"-listen={listen}", *fault.flags])
    client.start()
    stack.callback(port.release)
    stack.callback(client.kill)
    clients = [{"name": "informers", "url": f"http://{listen}/metrics"}]
    config = config_file(folder, watch=[{"resource": "pods"}, {"resource": "configmaps"}], clients=clients)
    daemon = stack.enter_context(Daemon(folder, "--config", config, "--kubeconfig", users["watchslo"]))
    daemon.until_ready()
    stack.enter_context(changing(plane))
    time.sleep(SETTLED_SECONDS)
    return look(daemon, active(fault, links, client), said)


@contextlib.contextmanager
def changing(plane: ControlPlane) -> Iterator[None]:
    """Create pods and configmaps while the context is open."""
    ended = Event()

    def write() -> None:
        with plane.writer() as writer:
            number = 0
            while not ended.wait(GAP_SECONDS):
                writer.create(CONFIGMAPS, configmap(f"changed-{number}"))
                writer.create(PODS, {"metadata": {"name": f"changed-{number}"}, "spec": POD_SPEC})
                number += 1

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def active(fault: InformerFault, links: dict[str, Proxy], client: Process) -> AbstractContextManager[object]:
    """Return the fault as a context; that of flags began with the client."""
    if fault.paused:
        return client.paused()
    if fault.held:
        return links[fault.link].fault("hole-to-client")
    return links[fault.link].late(fault.law) if fault.law else contextlib.nullcontext()


def said(status: dict[str, Any]) -> Iterator[str]:
    """Yield the verdicts on caches, and what prevents them."""
    for client in status["clients"]:
        yield from (f"{informer['verdict']}: {informer['resource']}" for informer in client["informers"])
        yield from filter(None, (client["obstacle"],))


if __name__ == "__main__":
    sys.exit(main())
