"""How a fault is caused on real and on simulated parts, in the order of the places: servers, links, storage, rights,
clients, the daemon itself."""

import base64
import contextlib
import json
import os
import shutil
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.lab.clients import hot_looping
from tests.lab.flow_control import seats_taken
from tests.lab.ground import CRDS, CUSTOM, GROUP, Script, put
from tests.lab.minted_tokens import mint
from tests.lab.scene import LOOK_SECONDS, Hit, Scene, Strike
from tests.support import assets
from tests.support.background import repeated
from tests.support.certs import Authority
from tests.support.control_plane import EVERYTHING_READABLE, HOST, Apiserver, ControlPlane, Port
from tests.support.daemon import Proxy
from tests.support.high_availability import announce, withdraw
from tests.support.process import PATIENCE_SECONDS, Process, eventually
from tests.support.writer import DEAD_WEBHOOK, StatusError, Writer, crd

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
AWAY_SECONDS = 10.0
ELECTED_SECONDS = 10.0  # between two elections
NEXT_VERSION = "1.37"
WITHOUT_CA_SECONDS = 3.0
STOPPED_SECONDS = 0.2  # until all threads of a process have stopped
THROTTLED_SECONDS = 50.0  # a minute, with the time until the daemon notices
EVALUATED_SECONDS = 6.0  # events are evaluated every five seconds
LIST_BYTES_A_SECOND = 20_000.0  # a list takes longer than the cache remembers
SLOW_BYTES_A_SECOND = 40_000  # 20 changes a second fit, and a list of 1,000 objects takes several seconds
WATCHED_CHUNKS = 5.0  # per second, of a busy watch at least
LOOK_BACK_SECONDS = 3.0
SILENT_SECONDS = 15.0  # of the client of a watch; an audit, which is a short watch, ends earlier
STORM_NICE = 15
GROUPS_BUT_APPS = (
    *("", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io", "networking.k8s.io"),
    *("policy", "rbac.authorization.k8s.io", "storage.k8s.io"),
)
WITHOUT_APPS = EVERYTHING_READABLE | {"apiGroups": [*GROUPS_BUT_APPS]}
"""The right to read what a daemon watches by default, but `apps`."""
FILLED, FILLING, FILLING_QUADS = "kube-public", 1500, 330
"""What a storm lists: a namespace, the number of its secrets, and a third of their size in bytes."""


def momentary(make: Callable[[Scene], None]) -> Strike:
    """Return a fault that is over when this function returns."""

    @contextlib.contextmanager
    def strike(scene: Scene) -> Iterator[Hit]:
        make(scene)
        scene.ends_here()
        yield Hit(apiserver=scene.hit)

    return strike


def on_link(name: str, value: float | None = None, connections: str | None = None) -> Strike:
    """Return a fault of the link between the daemon and an apiserver."""

    @contextlib.contextmanager
    def strike(scene: Scene) -> Iterator[Hit]:
        with scene.link.fault(name, value, connections):
            yield Hit(apiserver=scene.hit)

    return strike


def simulated(*names: str) -> Strike:
    """Return faults of the simulator."""

    @contextlib.contextmanager
    def strike(scene: Scene) -> Iterator[Hit]:
        with scene.simulated(*names):
            yield Hit()

    return strike


def late(links: Callable[[Scene], list[Proxy]], usual: str = "", most: float = 1.2) -> Strike:
    """Return a fault that delays everything on some links: as usual, or by at least 0.3 s and at most this."""

    @contextlib.contextmanager
    def strike(scene: Scene) -> Iterator[Hit]:
        law = usual if usual and scene.usual else _law(scene.random, 0.3, most)
        with contextlib.ExitStack() as stack:
            for link in links(scene):
                stack.enter_context(link.late(law))
            yield Hit(law, scene.hit)

    return strike


def stopped(process: Callable[[Scene], Process]) -> Strike:
    """Return a fault that stops a process by SIGSTOP; its connections stay open."""

    @contextlib.contextmanager
    def strike(scene: Scene) -> Iterator[Hit]:
        with process(scene).paused():
            yield Hit(apiserver=scene.hit)

    return strike


@contextlib.contextmanager
def nothing(_scene: Scene) -> Iterator[Hit]:
    yield Hit("none")


# The apiservers and etcd


def apiserver_ended(scene: Scene) -> None:
    one = apiserver(scene)
    one.process.end()
    one.start()
    one.wait_ready()


def apiserver_killed(seconds: float) -> Callable[[Scene], None]:
    """Kill it, and start it again after so many seconds."""

    def make(scene: Scene) -> None:
        if scene.member:
            scene.member.kill()
            time.sleep(seconds)
            scene.member.start()
            return
        one = apiserver(scene)
        one.process.kill()
        time.sleep(seconds)
        one.start()
        one.wait_ready()

    return make


def rolling_restart(scene: Scene) -> None:
    for member in scene.watched:
        member.restart()
    scene.member = None  # all are hit


def upgraded(scene: Scene) -> None:
    """Let the next version take the place of each apiserver, one after another."""
    program = assets.of_version(os.environ, NEXT_VERSION).kube_apiserver
    for apiserver in scene.plane.apiservers:
        apiserver.use(program)
    rolling_restart(scene)


@contextlib.contextmanager
def etcd_stopped(scene: Scene) -> Iterator[Hit]:
    """Stop all members of etcd."""
    lab = scene.ground.lab
    with contextlib.ExitStack() as stack:
        for member in lab.cluster.members if lab else [scene.plane.etcd]:
            stack.enter_context(member.process.paused())
        yield Hit()


def leader_changed(scene: Scene) -> None:
    """Make each member of etcd the leader in turn."""
    assert scene.ground.lab
    cluster = scene.ground.lab.cluster
    for _ in cluster.members:
        cluster.lead(cluster.followers()[0])
        time.sleep(ELECTED_SECONDS)


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


def etcd_restored(scene: Scene) -> None:
    """Etcd gets the data that it had before the daemon started."""
    plane, data = scene.plane, scene.plane.etcd.data
    with scene.writing.resting():  # no write is under way that the restore would undo
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
        scene.until_counted("clock reset")  # before new writes bring the revision past the one from before the restore


def backup(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """Copy the data of etcd while it stands still: etcd starts from such a copy as after a SIGKILL."""
    with plane.etcd.process.paused():
        time.sleep(STOPPED_SECONDS)
        shutil.copytree(plane.etcd.data, folder / "backup")
    return {"token": plane.token}


# The links


def every_storage(scene: Scene) -> list[Proxy]:
    """Return all links from etcd to the apiservers."""
    return [*(member.storage for member in scene.ground.members), *scene.ground.storage.values()]


def one_storage(scene: Scene) -> list[Proxy]:
    """Return the link from etcd to the apiserver that is hit."""
    assert scene.member is not None
    return [scene.member.storage]


@contextlib.contextmanager
def unreachable(scene: Scene) -> Iterator[Hit]:
    with scene.link.fault("reset", connections="new"):
        scene.link.switch_on("reset", connections="open")
        yield Hit(apiserver=scene.hit)


def reset(scene: Scene) -> None:
    scene.link.switch_on("reset")


@contextlib.contextmanager
def idle_cut(scene: Scene) -> Iterator[Hit]:
    with scene.writing.resting(), scene.link.fault("idle-timeout", 50.0):
        yield Hit()


@contextlib.contextmanager
def black_hole_to_us(scene: Scene) -> Iterator[Hit]:
    """The open connections stay dead after the fault."""
    scene.link.switch_on("hole-to-client", connections="open")
    yield Hit()


@contextlib.contextmanager
def html_with_200(scene: Scene) -> Iterator[Hit]:
    with scene.link.fault("captive-portal"):
        scene.link.switch_on("fin")
        yield Hit()


@contextlib.contextmanager
def throttled(scene: Scene) -> Iterator[Hit]:
    """Pass fewer bytes than there are; many watches share the link to each of several apiservers."""
    rate = scene.random.uniform(1500.0, 3500.0) if scene.ground.members else None
    with scene.link.fault("thin-link", rate):
        yield Hit(f"{rate:.0f} bytes/s" if rate else "", scene.hit)


@contextlib.contextmanager
def watch_stalled(scene: Scene) -> Iterator[Hit]:
    """Let the connection of one watch die silently. The connection stays dead, but the watch may be reopened."""
    with scene.link.fault("hole-to-client", connections=_a_watch(scene.link, scene.random)):
        yield Hit("connection lost", scene.hit)


@contextlib.contextmanager
def watch_parked(scene: Scene) -> Iterator[Hit]:
    """Hold one watch for a time, let it catch up, and hold it again, as a client sees a watch that is parked.

    An audit would reopen a watch that is silent for longer, and then nothing is left to hold.
    """
    held, free, link = scene.random.uniform(1.5, 2.0), scene.random.uniform(1.5, 3.0), scene.link
    number = _a_watch(link, scene.random)

    def hold() -> None:
        with link.fault("hole-to-client", connections=number):
            time.sleep(held)

    with repeated(free, hold):
        yield Hit(f"{held:.1f} s of {held + free:.1f} s", scene.hit)


# The storage and the caches


@contextlib.contextmanager
def frozen_cache(scene: Scene) -> Iterator[Hit]:
    frozen = scene.simulated("frozen-cache") if scene.ground.simulator else scene.storage.fault("hole-to-client")
    with frozen:
        yield Hit("nothing passes")


@contextlib.contextmanager
def expired_storm(scene: Scene) -> Iterator[Hit]:
    """End all watches of one resource with a 410, again and again.

    Real caches lose their revisions, and a list in small pages takes longer than the time between two losses.
    """
    lab = scene.ground.lab
    if lab is None:
        with scene.simulated("expired"):
            yield Hit("every 5 s")
        return
    seconds = scene.chosen(10.0, lambda random: random.uniform(3.0, 5.0))
    with repeated(seconds, lambda: lab.lose_revisions(f"/{scene.resource}")):
        yield Hit(f"every {seconds:.1f} s")


def compacted(scene: Scene) -> None:
    with unreachable(scene):
        time.sleep(3.0)
        scene.plane.etcd.compact(scene.plane.etcd.revision())


@contextlib.contextmanager
def short_history(scene: Scene) -> Iterator[Hit]:
    """Lists are slow before the first write, because the daemon probes the headroom of busy resources only."""
    with scene.link.fault("thin-link", SLOW_BYTES_A_SECOND), scene.simulated("short-history"), scene.changing(20):
        yield Hit()


@contextlib.contextmanager
def unattended(scene: Scene) -> Iterator[Hit]:
    """Create a deployment that no controller observes, and delete it in the end."""
    with Writer(scene.simulator.url) as writer:
        writer.create(DEPLOYMENTS, {"metadata": {"name": "unattended"}, "spec": {"replicas": 1}})
        yield Hit()
        writer.delete(f"{DEPLOYMENTS}/unattended")


@contextlib.contextmanager
def stale_informer(scene: Scene) -> Iterator[Hit]:
    with scene.changing(20), scene.simulated("stale-informer"):
        yield Hit()


def cache_too_small(scene: Scene) -> None:
    """The list takes so long that its revision has left the watch cache before the watch begins."""
    with scene.simulated("short-history"), scene.link.fault("thin-link", LIST_BYTES_A_SECOND):
        with scene.simulated("expired"):
            scene.until_counted("relist expired")
        scene.until_counted("relist expired", times=2)


def revision_too_large(scene: Scene) -> None:
    """The apiserver's cache is frozen, so it cannot stream a list that is as new as etcd."""
    with scene.simulated("frozen-cache"):
        with scene.simulated("expired"):
            scene.until_counted("relist expired")
        scene.daemon.until_said("list_failed", reason="future_revision")


@contextlib.contextmanager
def lost_delete(scene: Scene) -> Iterator[Hit]:
    with scene.changing(20.0), scene.simulated("lost-delete"):  # the writer only creates objects
        yield Hit()


@contextlib.contextmanager
def skipped_resume(scene: Scene) -> Iterator[Hit]:
    with scene.simulated("skipped-resume"):
        with scene.simulated("cut"):  # all watches end at once
            pass
        yield Hit()


@contextlib.contextmanager
def wrong_type(scene: Scene) -> Iterator[Hit]:
    """No guarantee is about types: the event counts as what its type says."""
    with scene.changing(20.0), scene.simulated("wrong-type"):
        yield Hit()
    assert "wrong-type" in scene.edits()


# Credentials, rights and CRDs


def service_account(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """A service account with the rights to read, which can be taken away."""
    return {"token": plane.service_account(folder.name, EVERYTHING_READABLE)}


def token_file(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """A service account with its token in a file, as in pods."""
    service_account(plane, folder)
    _renew_token(plane, folder, lives=3600.0)
    return {"tokenFile": str(folder / "token")}


@contextlib.contextmanager
def rights_revoked(scene: Scene) -> Iterator[Hit]:
    """Take all rights away; of a daemon that watches several apiservers, those to one API group."""
    account, rules = scene.folder.name, [WITHOUT_APPS] if scene.watched else []
    with scene.plane.writer() as writer:
        writer.patch(f"{ROLES}/{account}", {"rules": rules})
        token = writer.service_account_token("default", account)
    for one in scene.plane.apiservers:
        with one.writer(token) as refused:
            eventually(partial(_is_refused, refused), "the right is gone")  # RBAC reads a cache, too
    scene.begins()
    _reset(scene)  # an open watch outlives its right
    try:
        yield Hit()
    finally:
        with scene.plane.writer() as writer:
            writer.patch(f"{ROLES}/{account}", {"rules": [EVERYTHING_READABLE]})


@contextlib.contextmanager
def token_expired(scene: Scene) -> Iterator[Hit]:
    _renew_token(scene.plane, scene.folder, lives=8.0)
    scene.daemon.until_said("tick_failed", reason="unauthorized")
    _reset(scene)
    scene.until_counted("closed credentials/unauthorized")
    if scene.watched:
        scene.begins()
    yield Hit()
    _renew_token(scene.plane, scene.folder, lives=3600.0)


def _reset(scene: Scene) -> None:
    """End all connections of the daemon to apiservers."""
    for link in [member.client for member in scene.watched] or [scene.link]:
        link.switch_on("reset")


def too_many_requests(scene: Scene) -> None:
    with seats_taken(scene.plane, scene.folder.name):
        scene.daemon.until_said("tick_failed", reason="throttled")
        scene.link.switch_on("reset")
        time.sleep(THROTTLED_SECONDS)


def crd_changed(scene: Scene) -> None:
    with scene.plane.writer() as writer:
        (version,) = crd("gadgets", "Gadget")["spec"]["versions"]
        version["schema"]["openAPIV3Schema"]["description"] = "Changed."
        writer.patch(f"{CRDS}/gadgets.{GROUP}", {"spec": {"versions": [version]}})
    time.sleep(2.0)


def crd_recreated(scene: Scene) -> None:
    with scene.plane.writer() as writer:
        writer.delete(f"{CRDS}/gizmos.{GROUP}")
    scene.until_counted("closed server/not_found")
    with scene.plane.writer() as writer:  # the apiserver may have closed a connection that was idle for so long
        writer.create(CRDS, crd("gizmos", "Gizmo"))


# Other clients, webhooks and apiservers


@contextlib.contextmanager
def conversion_dead(scene: Scene) -> Iterator[Hit]:
    """Store a gadget in another version, out of which only a webhook converts, that is dead."""
    (version,) = crd("gadgets", "Gadget")["spec"]["versions"]
    stored = {**version, "name": "v1beta1"}
    no_webhook = {"conversion": {"strategy": "None", "webhook": None}}
    with scene.plane.writer() as writer:
        path, spec = f"{CRDS}/gadgets.{GROUP}", {"versions": [{**version, "storage": False}, stored], **no_webhook}
        writer.patch(path, {"spec": spec})
        gadget = {"apiVersion": f"{GROUP}/v1beta1", "kind": "Gadget", "metadata": {"generateName": "stored-"}}
        eventually(partial(_is_created, writer, CUSTOM.replace("v1", "v1beta1"), gadget), "the version is served")
        writer.patch(path, {"spec": {"conversion": DEAD_WEBHOOK}})
    try:
        yield Hit()
    finally:
        with scene.plane.writer() as writer:
            writer.patch(path, {"spec": no_webhook})


def _is_created(writer: Writer, path: str, gadget: dict[str, Any]) -> bool:
    try:
        writer.create(f"{path}/gadgets", gadget)
    except StatusError:
        return False
    return True


@contextlib.contextmanager
def hot_loop(scene: Scene) -> Iterator[Hit]:
    with hot_looping(scene.plane):
        yield Hit()


@contextlib.contextmanager
def relist_storm(scene: Scene) -> Iterator[Hit]:
    clients, pause = scene.random.randint(120, 180), scene.random.uniform(0.1, 0.3)
    assert scene.member is not None
    for number in range(FILLING):
        put(scene.plane.etcd, "Secret", FILLED, f"filling-{number}", data={"filling": "eHh4" * FILLING_QUADS})
    scene.begins()
    settings = {
        "url": scene.member.apiserver.url,
        "ca": str(scene.plane.ca),
        "token": scene.ground.storm_token,
        "paths": [f"/api/v1/namespaces/{FILLED}/secrets"],
        "clients": clients,
        "pause": pause,
    }
    with Script(scene.folder, "storm", json.dumps(settings)) as storm:
        os.setpriority(os.PRIO_PGRP, storm.pid, STORM_NICE)
        yield Hit(f"{clients} clients, {pause:.2f} s apart")


@contextlib.contextmanager
def webhook_slow(scene: Scene) -> Iterator[Hit]:
    """Delay the creations of pods by a webhook."""
    seconds, webhook = scene.random.uniform(0.8, 3.0), scene.ground.webhook
    assert webhook is not None
    control = urllib.request.Request(f"{webhook.announced['control']}/late", str(seconds).encode(), method="POST")
    with urllib.request.urlopen(control, timeout=PATIENCE_SECONDS):
        pass
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    registered = {
        "name": "slow.tests.watchslo.invalid",
        "clientConfig": {
            "url": webhook.announced["url"],
            "caBundle": base64.b64encode(scene.plane.ca.read_bytes()).decode(),
        },
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 10,
    }
    with scene.plane.writer() as writer:
        writer.create(WEBHOOKS, {"metadata": {"name": "slow"}, "webhooks": [registered]})
    try:
        yield Hit(f"{seconds:.2f} s")
    finally:
        with scene.plane.writer() as writer:
            writer.delete(f"{WEBHOOKS}/slow")


@contextlib.contextmanager
def unreachable_witnesses(scene: Scene) -> Iterator[Hit]:
    """Announce two apiservers at which nothing listens."""
    ports = Port(), Port()
    urls = [f"https://{HOST}:{port.number}" for port in ports]
    for url in urls:
        announce(scene.plane.etcd, url)
    try:
        yield Hit()
    finally:
        for port, url in zip(ports, urls, strict=True):
            withdraw(scene.plane.etcd, url)
            port.release()


# The daemon itself


def loop_blocked(scene: Scene) -> None:
    scene.daemon.process.signal(signal.SIGUSR1)
    time.sleep(3.0)


def wall_clock_stepped(scene: Scene) -> None:
    """The apiserver's wall clock dates creations; none may seem to be an hour old."""
    scene.daemon.process.signal(signal.SIGUSR2)
    time.sleep(10.0)
    scene.daemon.process.signal(signal.SIGUSR2)
    scene.ends_here()
    time.sleep(EVALUATED_SECONDS)
    scrape = scene.daemon.scrape()
    young = scrape.total("watchslo_creation_to_watch_seconds_bucket", le="10.0")
    old = scrape.total("watchslo_creation_to_watch_seconds_count") - young
    assert old == 0, f"{old} creations seem old, {young} do not"


@contextlib.contextmanager
def starved(scene: Scene) -> Iterator[Hit]:
    """Stop the daemon for a part of the time."""
    blocked, free = scene.chosen((0.4, 0.4), lambda random: (random.uniform(0.2, 1.0), random.uniform(0.3, 1.0)))
    with repeated(free, lambda: scene.daemon.process.pause(blocked)):
        yield Hit(f"{blocked:.2f} s of {blocked + free:.2f} s")


def restarted(scene: Scene) -> None:
    scene.daemon.restart(AWAY_SECONDS)


@contextlib.contextmanager
def misconfigured(scene: Scene) -> Iterator[Hit]:
    scene.daemon.configure(watch=[{"resource": "No Such Resource"}])
    try:
        yield Hit()
    finally:
        scene.daemon.configure()


def apiserver(scene: Scene) -> Apiserver:
    return scene.member.apiserver if scene.member else scene.plane.apiservers[0]


def _watches(apiserver: Apiserver, token: str) -> bool:
    """Return whether a client watches service accounts in one namespace; the apiserver's own watch has no namespace."""
    wanted = ('resource="serviceaccounts"', 'scope="namespace"', 'verb="WATCH"')
    with apiserver.writer(token) as writer:
        metrics = writer.text("/metrics")
    lines = [line for line in metrics.splitlines() if line.startswith("apiserver_longrunning_requests{")]
    return any(float(line.rpartition(" ")[2]) > 0 for line in lines if all(label in line for label in wanted))


def _law(random: Random, least: float, most: float) -> str:
    seconds = random.uniform(least, most)
    return f"normal {1e3 * seconds:.0f}ms {1e2 * seconds:.0f}ms"


def _a_watch(link: Proxy, random: Random) -> int:
    """Return the connection of a busy watch."""
    found: Sequence[int] = eventually(lambda: _busy_watches(link), "a watch is busy", LOOK_BACK_SECONDS)
    return random.choice(found)


def _busy_watches(link: Proxy) -> list[int]:
    """Return the connections that had many chunks while their client asked for nothing: watches."""
    with urllib.request.urlopen(f"{link.announced['control']}/chunks", timeout=PATIENCE_SECONDS) as answer:
        log = json.load(answer)
    recent = [chunk for chunk in log["chunks"] if chunk["forwarded"] > log["now"] - LOOK_BACK_SECONDS]
    chunks = Counter(chunk["connection"] for chunk in recent)
    silent = [int(number) for number, asked in log["asked"].items() if asked < log["now"] - SILENT_SECONDS]
    return [number for number in silent if chunks[number] > WATCHED_CHUNKS * LOOK_BACK_SECONDS]


def _is_refused(writer: Writer) -> bool:
    try:
        writer.revision(DEPLOYMENTS)
    except StatusError as error:
        return error.code == 403
    return False


def _renew_token(plane: ControlPlane, folder: Path, lives: float) -> None:
    draft = folder / "token.new"
    draft.write_text(mint(plane, folder.name, lives))
    draft.replace(folder / "token")
