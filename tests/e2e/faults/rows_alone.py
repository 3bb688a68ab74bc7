"""What happens to apiservers and to etcd themselves."""

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


def apiserver_sigterm(scene: Scene) -> None:
    scene.plane.apiservers[0].restart()


def apiserver_sigkill(scene: Scene) -> None:
    apiserver = scene.plane.apiservers[0]
    apiserver.process.kill()
    apiserver.start()
    apiserver.wait_ready()


def apiserver_sigstop(scene: Scene) -> None:
    process = scene.plane.apiservers[0].process
    process.signal(signal.SIGSTOP)
    time.sleep(APISERVER_FROZEN_SECONDS)
    process.signal(signal.SIGCONT)


def etcd_sigstop(scene: Scene) -> None:
    process = scene.plane.etcd.process
    process.signal(signal.SIGSTOP)
    time.sleep(ETCD_FROZEN_SECONDS)
    process.signal(signal.SIGCONT)


def ca_rotated(scene: Scene) -> None:
    """The apiserver's certificate is another authority's, and only later do we hear of that."""
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
    """The one that has the watch, whichever that is; the scribe goes on with the other."""
    plane = scene.plane
    while len(watched := [apiserver for apiserver in plane.apiservers if _watches(apiserver, plane.token)]) != 1:
        time.sleep(LOOK_SECONDS)  # there may be an audit
    scene.begins()
    watched[0].process.kill()


def _watches(apiserver: Apiserver, token: str) -> bool:
    """Whether an apiserver has a watch of service accounts in one namespace: its own are of all namespaces."""
    wanted = ('resource="serviceaccounts"', 'scope="namespace"', 'verb="WATCH"')
    with apiserver.writer(token) as writer:
        metrics = writer.text("/metrics")
    lines = [line for line in metrics.splitlines() if line.startswith("apiserver_longrunning_requests{")]
    return any(float(line.rpartition(" ")[2]) > 0 for line in lines if all(label in line for label in wanted))


def etcd_restored(scene: Scene) -> None:
    """To what it was before the daemon has started."""
    plane, data = scene.plane, scene.plane.etcd.data
    with scene.scribe.resting():  # nothing that will be undone is on its way
        scene.until_delivered()
        scene.begins()
        for apiserver in plane.apiservers:
            apiserver.process.kill()
        plane.etcd.process.stop()
        shutil.rmtree(data)
        shutil.copytree(scene.folder / "backup", data)
        plane.etcd.start()
        for apiserver in plane.apiservers:
            apiserver.start()
        scene.until_counted("clock reset")  # before so much is written anew that nothing seems to have gone back


def backup(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """Copies what etcd holds."""
    plane.etcd.process.stop()
    shutil.copytree(plane.etcd.data, folder / "backup")
    plane.etcd.start()
    for apiserver in plane.apiservers:
        apiserver.wait_ready()
    return {"token": plane.token}


NETWORK = "closed network"
AFRESH = frozenset({"closed expired/expired", "relist expired", "gap"})
"""A cache that has just been filled knows nothing older than itself."""
STARTING = frozenset(
    {"expired stream", "expired open", "closed server/server_error", "closed server/throttled", "relist errors"}
) | {"closed credentials/forbidden"}
"""What an apiserver may say that is about to end, or is yet to read who may do what."""
ALONE = (
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
    Row("etcd stands still (SIGSTOP) for 10 s", etcd_sigstop, frozenset({"tick failed"}), also=frozenset({"stall"})),
    Row(
        "one of two apiservers behind one address is killed",
        one_of_two_killed,
        frozenset({NETWORK}),
        watches=({"resource": "serviceaccounts", "namespace": "default"},),
        behind_one_address=True,
    ),
    Row(
        "the CA is rotated, and we hear of it later",
        ca_rotated,
        frozenset({"closed network/reset", "closed network/tls"}),
        also=frozenset({"closed credentials/rotated"}),
    ),
    Row(
        "etcd is restored to an older state",
        etcd_restored,
        frozenset({NETWORK, "clock reset", "closed own/domain_reset", "relist domain_reset"}),
        also=AFRESH | STARTING | {"unmeasured domain"},
        forgets=True,
        prepare=backup,
    ),
)
