"""Faults of the link to a healthy apiserver, of rights and CRDs in it, and of the daemon itself."""

import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.faults.flow_control import seats_taken
from tests.e2e.faults.row import REAL, Row, Scene
from tests.e2e.faults.tokens import mint
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane
from tests.support.process import eventually
from tests.support.writer import StatusError, Writer, crd

GROUP = "tests.watchslo.invalid"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
THROTTLED_SECONDS = 50.0  # a minute, with the time until the daemon notices
IDLE_CUT_SECONDS = 50.0
EVALUATED_SECONDS = 6.0  # events are evaluated every five seconds
SHORT_LINES: dict[str, Any] = {"limits": {"maxLine": "1Mi"}}


def watching(resource: str, **keys: Any) -> tuple[dict[str, Any], ...]:
    return ({"resource": resource, "namespace": "default", **keys},)


# The link


def reset(scene: Scene) -> None:
    scene.link.switch_on("reset")


def fin_inside_a_chunk(scene: Scene) -> None:
    with scene.link.fault("truncated"):  # a connection ends when the next bytes come
        scene.until_counted("closed network/early_eof")


def idle_cut(scene: Scene) -> None:
    with scene.scribe.resting(), scene.link.fault("idle-timeout", IDLE_CUT_SECONDS):
        time.sleep(2.2 * IDLE_CUT_SECONDS)


def black_hole_to_us(scene: Scene) -> None:
    scene.link.switch_on("hole-to-client", connections="open")
    scene.until_counted("stall")


def black_hole_from_us(scene: Scene) -> None:
    with scene.link.fault("hole-to-server"):  # also on new connections: the next tick may be the first of one
        scene.until_counted("tick failed")


def throttled(scene: Scene) -> None:
    with scene.link.fault("thin-link"):
        time.sleep(20.0)


def html_with_200(scene: Scene) -> None:
    with scene.link.fault("captive-portal"):
        scene.link.switch_on("fin")
        scene.until_counted("closed server/garbage")


def long_line(scene: Scene) -> None:
    """The fault is over before the next watch opens: on a new connection it would strike once more."""
    with scene.link.fault("long-line"):
        scene.until_counted("garbage")


def too_long_line(scene: Scene) -> None:
    with scene.link.fault("long-line"):
        scene.until_counted("closed server/oversize")


# The storage


def compacted(scene: Scene) -> None:
    scene.link.switch_on("reset", connections="new")
    scene.link.switch_on("reset", connections="open")
    time.sleep(3.0)
    scene.plane.etcd.compact(scene.plane.etcd.revision())
    scene.link.switch_off("reset")


def frozen_cache(scene: Scene) -> None:
    with scene.storage.fault("hole-to-client"):
        scene.until_counted("stall")


# Credentials, rights and CRDs


def service_account(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """A service account with the rights to read, which can be taken away."""
    return {"token": plane.service_account(_slug(folder), EVERYTHING_READABLE)}


def token_file(plane: ControlPlane, folder: Path) -> dict[str, Any]:
    """A service account with its token in a file, as in pods."""
    plane.service_account(_slug(folder), EVERYTHING_READABLE)
    _renew_token(plane, folder, lives=3600.0)
    return {"tokenFile": str(folder / "token")}


def rights_revoked(scene: Scene) -> None:
    with scene.plane.writer() as writer:
        writer.patch(f"{ROLES}/{scene.row.slug}", {"rules": []})
        token = writer.service_account_token("default", scene.row.slug)
        with scene.plane.writer(token) as refused:
            eventually(partial(_is_refused, refused), "the right is gone")  # RBAC reads a cache, too
        scene.link.switch_on("reset")  # an open watch outlives its right
        scene.until_counted("closed credentials/forbidden")
        writer.patch(f"{ROLES}/{scene.row.slug}", {"rules": [EVERYTHING_READABLE]})


def _is_refused(writer: Writer) -> bool:
    try:
        writer.revision(CONFIGMAPS)
    except StatusError as error:
        return error.code == 403
    return False


def token_expired(scene: Scene) -> None:
    _renew_token(scene.plane, scene.folder, lives=8.0)
    scene.until_said("tick_failed", reason="unauthorized")
    scene.link.switch_on("reset")
    scene.until_counted("closed credentials/unauthorized")
    _renew_token(scene.plane, scene.folder, lives=3600.0)


def too_many_requests(scene: Scene) -> None:
    with seats_taken(scene.plane, scene.row.slug):
        scene.until_said("tick_failed", reason="throttled")
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


def watch_list_gate_off(_scene: Scene) -> None:
    """Nothing to do: the gate is off from the start."""


# The daemon itself


def own_loop_blocked(scene: Scene) -> None:
    scene.daemon.process.signal(signal.SIGUSR1)
    time.sleep(3.0)


def wall_clock_stepped(scene: Scene) -> None:
    """The apiserver's wall clock dates creations; none may seem to be an hour old."""
    scene.daemon.process.signal(signal.SIGUSR2)
    time.sleep(10.0)
    scene.daemon.process.signal(signal.SIGUSR2)
    scene.ends()
    time.sleep(EVALUATED_SECONDS)
    scrape = scene.daemon.scrape()
    young = scrape.total("watchslo_creation_to_watch_seconds_bucket", le="10.0")
    old = scrape.total("watchslo_creation_to_watch_seconds_count") - young
    assert old == 0, f"{old} creations seem old, {young} do not"


def _slug(folder: Path) -> str:
    return folder.name.replace("_", "-")


def _renew_token(plane: ControlPlane, folder: Path, lives: float) -> None:
    draft = folder / "token.new"
    draft.write_text(mint(plane, _slug(folder), lives))
    draft.replace(folder / "token")


CREATIONS = watching("configmaps", list="stream", creation=True)
NETWORK = frozenset({"closed network"})
FORGOTTEN = frozenset(
    {
        "closed expired/expired",
        "expired stream",
        "expired open",
        "closed server/throttled",
        "relist expired",
        "gap",
    }
)
LINKED = (
    Row("every connection is reset (RST)", reset, frozenset({"closed network/reset"})),
    Row("the connection ends (FIN) inside a chunk", fin_inside_a_chunk, frozenset({"closed network/early_eof"})),
    Row(
        "a load balancer cuts what is idle for 50 s",
        idle_cut,
        frozenset({"closed network/early_eof"}),
        watches=watching("serviceaccounts"),
    ),
    Row(
        "black hole: nothing from the apiserver arrives any more",
        black_hole_to_us,
        frozenset({"stall", "closed network/stalled", "beyond the threshold"}),
    ),
    Row("black hole: nothing from the daemon arrives any more", black_hole_from_us, frozenset({"tick failed"})),
    Row(
        "throttled to 64 kbit/s",
        throttled,
        frozenset({"beyond the threshold"}),
        also=frozenset({"stall", "closed network/stalled"}),  # an audit is served by its own connection
        watches=watching("configmaps", representation="metadata"),
    ),
    Row(
        "a proxy in between answers with HTML and status 200",
        html_with_200,
        frozenset({"closed server/garbage"}),
        also=NETWORK,
        plain=True,
    ),
    Row("a line of 20 MiB, where 64 MiB are allowed", long_line, frozenset({"garbage"}), plain=True),
    Row(
        "a line of 20 MiB, where 1 MiB is allowed",
        too_long_line,
        frozenset({"closed server/oversize", "relist errors", "gap"}),
        plain=True,
        keys=SHORT_LINES,
        forgets=True,
    ),
    Row(
        "compaction past the watch's revision while it is closed",
        compacted,
        frozenset({"closed network/reset", "closed expired/expired", "relist expired", "gap"}),
        also=NETWORK | {"expired open", "expired stream"},
        watches=watching("events"),
        forgets=True,
    ),
    Row(
        "one resource's watch cache is frozen",
        frozen_cache,
        frozenset({"stall", "beyond the threshold"}),
        watches=watching("secrets"),
    ),
    Row(
        "the right to watch is taken away and given back",
        rights_revoked,
        frozenset({"closed network/reset", "closed credentials/forbidden"}),
        prepare=service_account,
    ),
    Row(
        "the token expires, and a new one comes later",
        token_expired,
        frozenset({"closed credentials/unauthorized"}),
        prepare=token_file,
        also=NETWORK | {"closed credentials/rotated"},
    ),
    Row(
        "all requests are answered with 429 for a minute",
        too_many_requests,
        frozenset({"closed network/reset", "closed server/throttled"}),
        prepare=service_account,
    ),
    Row(
        "a CRD is changed",
        crd_changed,
        frozenset({"closed server"}),
        also=FORGOTTEN,  # the new CRD has a new watch cache, and earlier writes may be too old for it
        watches=watching(f"gadgets.{GROUP}"),
        forgets=True,
    ),
    Row(
        "a CRD is deleted and created again",
        crd_recreated,
        frozenset({"closed server/not_found", "closed server/crd_deleted", "relist expired", "gap"}),
        also=FORGOTTEN,
        watches=watching(f"gizmos.{GROUP}"),
        forgets=True,
    ),
    Row(
        "the apiserver streams no lists (gate WatchList off)",
        watch_list_gate_off,
        frozenset({"list fallback"}),
        also=frozenset({"unmeasured domain"}),
        watches=CREATIONS,
        from_start=True,
    ),
    Row("the daemon's own loop is blocked for 3 s", own_loop_blocked, frozenset({"unmeasured tainted"})),
    Row(
        "the daemon's wall clock is an hour ahead for 10 s",
        wall_clock_stepped,
        frozenset(),
        watches=CREATIONS,
    ),
)
assert all(row.where == REAL for row in LINKED)
