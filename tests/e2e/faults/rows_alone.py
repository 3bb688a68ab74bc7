"""Faults of the apiservers and of etcd themselves."""

import shutil
import signal
import time
from pathlib import Path
from typing import Any

from tests.e2e.faults.row import LOOK_SECONDS, Row, Scene
from tests.support.certs import Authority
from tests.support.control_plane import Apiserver, ControlPlane

APISERVER_FROZEN_SECONDS = 40.0
ETCD_FROZEN_SECONDS = 10.0
WITHOUT_CA_SECONDS = 3.0
STOPPED_SECONDS = 0.2  # until all threads of a process have stopped


def apiserver_sigterm(scene: Scene) -> None:
    apiserver = scene.plane.apiservers[0]
    apiserver.process.end()
    scene.start(apiserver)
    apiserver.wait_ready()


def apiserver_sigkill(scene: Scene) -> None:
    apiserver = scene.plane.apiservers[0]
    apiserver.process.kill()
    scene.start(apiserver)
    apiserver.wait_ready()


def apiserver_sigstop(scene: Scene) -> None:
    scene.plane.apiservers[0].process.pause(APISERVER_FROZEN_SECONDS)


def etcd_sigstop(scene: Scene) -> None:
    scene.plane.etcd.process.pause(ETCD_FROZEN_SECONDS)


def ca_rotated(scene: Scene) -> None:
    """The apiserver shows a certificate of another authority, and the CA file of the daemon follows later."""
    plane = scene.plane
    authority = Authority(scene.folder / "authority")
    plane.serve_as(authority.server("kube-apiserver"), authority.ca)
    scene.link.switch_on("reset")
    scene.until_counted("closed network/tls")
    time.sleep(WITHOUT_CA_SECONDS)
    renewed = plane.ca.with_suffix(".new")
    shutil.copy(authority.ca, renewed)
    renewed.replace(plane.ca)  # the scribe reads it, too


def one_of_two_killed(scene: Scene) -> None:
    """The killed apiserver is the one with the watch; the scribe continues with the other."""
    plane = scene.plane
    while len(watched := [apiserver for apiserver in plane.apiservers if _watches(apiserver, plane.token)]) != 1:
        time.sleep(LOOK_SECONDS)  # an audit may be open at the other
    scene.begins()
    watched[0].process.kill()


def _watches(apiserver: Apiserver, token: str) -> bool:
    """Return whether a client watches service accounts in one namespace; the apiserver's own watch has no namespace."""
    wanted = ('resource="serviceaccounts"', 'scope="namespace"', 'verb="WATCH"')
    with apiserver.writer(token) as writer:
        metrics = writer.text("/metrics")
    lines = [line for line in metrics.splitlines() if line.startswith("apiserver_longrunning_requests{")]
    return any(float(line.rpartition(" ")[2]) > 0 for line in lines if all(label in line for label in wanted))


def etcd_restored(scene: Scene) -> None:
    """Etcd gets the data that it had before the daemon started."""
    plane, data = scene.plane, scene.plane.etcd.data
    with scene.scribe.resting():  # no write is under way that the restore would undo
        scene.until_delivered()
        scene.begins()
        for apiserver in plane.apiservers:
            apiserver.process.kill()
        plane.etcd.process.stop()
        shutil.rmtree(data)
        shutil.copytree(scene.folder / "backup", data)
        scene.start(plane.etcd)
        for apiserver in plane.apiservers:
            scene.start(apiserver)
        scene.until_counted("clock reset")  # before new writes bring the revision past the one from before the restore


def backup(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """Copy the data of etcd while it stands still: etcd starts from such a copy as after a SIGKILL."""
    process = plane.etcd.process
    process.signal(signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    shutil.copytree(plane.etcd.data, folder / "backup")
    process.signal(signal.SIGCONT)
    return {"token": plane.token}


NETWORK = "closed network"
AFRESH = frozenset({"closed expired/expired", "relist expired", "gap"})
"""A new watch cache knows nothing older than itself."""
STARTING = frozenset(
    {"expired stream", "expired open", "closed server/server_error", "closed server/throttled", "relist errors"}
) | {"closed credentials/forbidden"}
"""How an apiserver may refuse requests when it is about to end, or has not read the RBAC rules yet."""
KILLED = (
    Row(
        "the apiserver gets SIGTERM and comes back",
        apiserver_sigterm,
        AFRESH | {"closed server/apiserver_shutdown"},
        also=STARTING | {NETWORK},
        forgets=True,
    ),
    Row(
        "the apiserver is killed (SIGKILL) and comes back",
        apiserver_sigkill,
        AFRESH | {NETWORK},
        also=STARTING,
        forgets=True,
    ),
    Row(
        "the apiserver stands still (SIGSTOP) for 40 s",
        apiserver_sigstop,
        frozenset({"tick failed"}),
        also=frozenset({"closed server/forced", "closed server/slow_consumer", NETWORK, "stall"}),
    ),
)
STORAGE = (
    Row("etcd stands still (SIGSTOP) for 10 s", etcd_sigstop, frozenset({"tick failed"}), also=frozenset({"stall"})),
    Row(
        "the CA is rotated, and the daemon's CA file follows later",
        ca_rotated,
        frozenset({"closed network/reset", "closed network/tls"}),
        also=frozenset({"closed credentials/rotated"}),
    ),
    Row(
        "one of two apiservers behind one address is killed",
        one_of_two_killed,
        frozenset({NETWORK}),
        watches=({"resource": "serviceaccounts", "namespace": "default"},),
        behind_one_address=True,
    ),
    Row(
        "etcd is restored to an older state",
        etcd_restored,
        frozenset({NETWORK, "clock reset", "relist domain_reset"}),
        # The watch may still be waiting to reopen when the reset is found: then there is none to close.
        also=AFRESH | STARTING | {"unmeasured domain", "closed own/domain_reset"},
        forgets=True,
        prepare=backup,
    ),
)
ALONE_LANES = (KILLED, STORAGE)
"""The rows of each control plane, in the order in which they are made."""
ALONE = (*KILLED, *STORAGE)
