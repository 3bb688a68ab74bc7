"""The table of faults: how each is caused, and what each judge expects. `FAULTS` is the table."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tests.lab import parts
from tests.lab.expected import Alert, Counts, ExpectedAlert, OnCall, Raised, Truth
from tests.lab.ground import FROZEN, GROUP, OVERRIDDEN
from tests.lab.parts import late, momentary, on_link, simulated, stopped
from tests.lab.scene import Fault, Scene, Setup, Strike
from tests.lab.statements import DISTRUSTED, GOOD, NO_ANSWER
from watchslo.config.model import Config
from watchslo.snapshot import Cause


def watching(resource: str, **keys: Any) -> tuple[dict[str, Any], ...]:
    return ({"resource": resource, "namespace": "default", **keys},)


def counts(*counted: str, also: Iterable[str] = (), **keys: Any) -> Counts:
    return Counts(frozenset(counted), frozenset(also), **keys)


NETWORK = frozenset({"closed network"})
EXPIRED = frozenset({"closed expired/expired", "relist expired", "gap"})
"""A new watch cache knows nothing older than itself."""
STARTING = frozenset(
    {
        "expired stream",
        "expired open",
        "closed server/server_error",
        "closed server/initializing",
        "closed server/throttled",
        "relist errors",
    }
) | {"closed credentials/forbidden"}
"""How an apiserver may refuse requests when it is about to end, or has not read the RBAC rules yet."""
FORGOTTEN = EXPIRED | {"expired stream", "expired open", "closed server/initializing"}
HURT = Setup("hurt")
ACCOUNT = Setup(prepare=parts.service_account)
CREATIONS = Setup(watches=watching("configmaps", list="stream", creation=True))
VIOLATED = Setup("simulated", watching("secrets", representation="metadata"), keys={"guarantees": {"level": "full"}})
"""All events are read a second time; the faults share one daemon."""
THREE = Setup(
    "three",
    (
        {"resource": OVERRIDDEN, "namespace": "default", "list": "paged", "pageSize": 10},
        {"resource": "secrets", "namespace": "default"},
        {"resource": "serviceaccounts", "namespace": "default"},
        {"resource": "pods", "creation": True},
    ),
)
"""The daemon whose causes are judged: its watches of all three apiservers can be compared."""


OBJECTIVE = {"minutes": {"window": "10s", "minEvents": 5}}
"""The objective where alerts are judged, with the shortest windows allowed: `--shrink` does not change these."""
CROWD = "crowd"
"""A cluster of instances that the demo and the clusters in `IN_CROWD` have, too."""
IN_CROWD = {"starved", "expired", "stale"}


def cluster(ground: str, *watches: dict[str, Any], **keys: Any) -> Setup:
    """Return the daemon of a cluster, for alerts; `keys` are further ones of its configuration."""
    return Setup(ground, watches, keys={"objective": OBJECTIVE, **keys})


LEASES = {"resource": "leases.coordination.k8s.io"}
REFUSED = (
    *("pods", "services", "serviceaccounts", "endpointslices.discovery.k8s.io", "deployments.apps"),
    *("replicasets.apps", "jobs.batch", "leases.coordination.k8s.io"),
)
CLUSTERS: Mapping[str, Setup] = {
    "late": cluster(
        "busy",
        {"resource": OVERRIDDEN, "namespace": "default"},
        {**LEASES, "list": "stream"},
        {"resource": "serviceaccounts", "namespace": "default", "creation": True, "reference": True},
        kubernetes={"apiserverMetrics": True},
    ),
    "frozen": cluster("busy", {"resource": FROZEN}, LEASES),
    "refused": replace(
        cluster("busy", *({"resource": name, "namespace": "default"} for name in REFUSED)),
        prepare=parts.service_account,
    ),
    "linked": cluster("busy", LEASES),
    "compared": replace(cluster("busy", LEASES), twice=True),
    "alone": cluster("busy", LEASES),
    "silent": cluster("quiet", LEASES),
    "expired": cluster("simulated-busy", LEASES),
    "stale": cluster("simulated-busy", {"resource": "configmaps", "list": "cache"}),
    "forgetful": cluster("simulated-busy", {"resource": "pods"}),
    "starved": cluster("simulated-busy", {"resource": "nodes"}),
    "hung": cluster("simulated-busy", {"resource": "services"}),
    "unattended": cluster("simulated-busy", {"resource": "deployments.apps"}),
    "outdated": cluster(
        "simulated-busy", {"resource": "endpointslices.discovery.k8s.io"}, kubernetes={"apiserverMetrics": True}
    ),
}
"""The clusters whose alerts are judged, each with one daemon; in Prometheus they have the label `cluster`."""


def raises(of: str, *alerts: Alert | str) -> Raised:
    return Raised(of, tuple(Alert(alert) if isinstance(alert, str) else alert for alert in alerts))


def burn(long: str, short: str, *, slow: bool = False) -> Alert:
    return Alert("KubeWatchLatencyBudgetBurn", {"long": long, "short": short}, slow)


ON_CALL = Setup(
    "whole",
    tuple({"resource": name} for name in (f"gadgets.{GROUP}", OVERRIDDEN, *(one.resource for one in Config().watch))),
    keys={"kubernetes": {"apiservers": "each"}},
    prepare=parts.token_file,
)
"""The daemon of those on call: with its defaults, config maps, a custom resource and a service account's token."""
LATENESS = frozenset({"KubeWatchLatencyBudgetBurn", "KubeWatchLatencyBadMinutes", "KubeWatchClusterBadMinutes"})


def fires(after: float, *names: str) -> ExpectedAlert:
    return ExpectedAlert(frozenset(names), after)


UNRESPONSIVE = fires(200.0, "KubeWatchApiserverUnresponsive")  # noticed in 10 s, for 1m


def unanswered(words: str) -> OnCall:
    return OnCall(
        frozenset({"unresponsive"}),
        210.0,
        words,
        (UNRESPONSIVE,),
        LATENESS,  # what was withheld arrives late
        frozenset({"KubeWatchDown", "KubeWatchStalled", "KubeWatchApiserverTicksSlow"})
        | frozenset({"WatchsloCoverageLow", "WatchsloUnmeasurable"}),
    )


def restarting(words: str = "") -> OnCall:
    """Return what is right while apiservers restart; all may be well between two restarts."""
    right = frozenset({"unresponsive", "down", "late", "stalled"})
    return OnCall(right, 0.0, words, (UNRESPONSIVE,), LATENESS, tolerated=frozenset({GOOD}))


def hardly_noticed(words: str = "") -> OnCall:
    """Return what is right while apiservers are away for a moment each, or withdrawn soon: it may also be `good`."""
    found = restarting(words)
    return replace(found, verdicts=found.verdicts | found.tolerated)


def harmless(words: str = "", seconds: float = 60.0) -> OnCall:
    """Return what is right during what is no fault of the apiservers."""
    return OnCall(frozenset({GOOD}), seconds, words)


def violating(name: str, words: str, *counted: str, strike: Strike | None = None) -> Fault:
    """Return a fault that breaks a guarantee of watches."""
    return Fault(name, words, strike or simulated(name), counts(*counted, until=counted[:1]), VIOLATED)


def once(name: str, words: str, make: Callable[[Scene], None], expected: Counts, setup: Setup) -> Fault:
    return Fault(name, words, momentary(make), expected, setup)


FAULTS = (
    # The apiservers and etcd
    once(
        "apiserver-ended",
        "the apiserver gets SIGTERM and comes back",
        parts.apiserver_ended,
        counts(*EXPIRED, "closed server/apiserver_shutdown", also=STARTING | NETWORK, forgets=True),
        HURT,
    ),
    Fault(
        "restart",
        "the apiserver is killed (SIGKILL) and comes back",
        momentary(parts.apiserver_killed(8.0)),
        counts(*EXPIRED, *NETWORK, also=STARTING, forgets=True),
        HURT,
        on_call=restarting("one apiserver is killed, and started again after 8 s"),
    ),
    Fault(
        "late-restart",
        "the apiserver is killed, and comes back after its lease has ended",
        momentary(parts.apiserver_killed(22.0)),
        # One that refuses connections is forgotten when the others withdraw it, up to 15 s later.
        on_call=hardly_noticed("one apiserver is killed, and started again after 22 s"),
    ),
    Fault(
        "stopped",
        "the apiserver stands still (SIGSTOP) for 40 s",
        stopped(lambda scene: parts.apiserver(scene).process),
        counts(
            "tick failed", also=NETWORK | {"closed server/forced", "closed server/slow_consumer", "stall"}, seconds=40.0
        ),
        HURT,
        on_call=unanswered("one of three apiservers stands still (SIGSTOP)"),
    ),
    Fault(
        "rolling-restart",
        "all apiservers are restarted, one after another",
        momentary(parts.rolling_restart),
        on_call=hardly_noticed(),
    ),
    Fault(
        "etcd-stopped",
        "etcd stands still (SIGSTOP) for 10 s",
        parts.etcd_stopped,
        counts("tick failed", also=("stall",), seconds=10.0),
        HURT,
        raises=(raises("silent", "KubeWatchStorageSilent"),),
        on_call=OnCall(
            frozenset({"storage_silent"}),
            150.0,
            "all members of etcd stand still (SIGSTOP)",
            (fires(120.0, "KubeWatchStorageSilent"),),
            LATENESS | {"KubeWatchDown"},
            tolerated=frozenset({"cause"}),  # storage_slow, until it is clear that no apiserver reaches it
        ),
    ),
    Fault(
        "leader-changed",
        "each member of etcd becomes the leader in turn",
        momentary(parts.leader_changed),
        on_call=harmless(),
    ),
    once(
        "ca-rotated",
        "the CA is rotated, and the daemon's CA file follows later",
        parts.ca_rotated,
        counts("closed network/reset", "closed network/tls", also=("closed credentials/rotated",)),
        HURT,
    ),
    once(
        "one-of-two-killed",
        "one of two apiservers behind one address is killed",
        parts.one_of_two_killed,
        counts(*NETWORK),
        Setup("hurt", watching("serviceaccounts"), behind_one=True),
    ),
    once(
        "etcd-restored",
        "etcd is restored to an older state",
        parts.etcd_restored,
        counts(
            *NETWORK,
            "clock reset",
            "relist domain_reset",
            # The watch may still be waiting to reopen when the reset is found: then there is none to close.
            also=EXPIRED | STARTING | {"unmeasured domain", "closed own/domain_reset"},
            forgets=True,
        ),
        Setup("hurt", prepare=parts.backup),
    ),
    # The links
    once("reset", "every connection is reset (RST)", parts.reset, counts("closed network/reset"), Setup()),
    Fault(
        "truncated",
        "the connection ends (FIN) inside a chunk",
        on_link("truncated"),  # a connection ends when the next bytes come
        counts("closed network/early_eof", until=("closed network/early_eof",)),
    ),
    Fault(
        "idle-cut",
        "a load balancer cuts what is idle for 50 s",
        parts.idle_cut,
        counts("closed network/early_eof", seconds=110.0),
        Setup(watches=watching("serviceaccounts")),
    ),
    Fault(
        "black-hole-to-us",
        "black hole: nothing from the apiserver arrives any more",
        parts.black_hole_to_us,
        counts("stall", "closed network/stalled", "beyond the threshold", until=("stall",)),
    ),
    Fault(
        "black-hole-from-us",
        "black hole: nothing from the daemon arrives any more",
        on_link("hole-to-server"),  # also on new connections: the next tick may be the first of one
        counts("tick failed", until=("tick failed",)),
    ),
    Fault(
        "throttled",
        "throttled to 64 kbit/s",
        parts.throttled,
        counts(
            "beyond the threshold",
            also=("stall", "closed network/stalled"),  # an audit is served by its own connection
            seconds=20.0,
        ),
        Setup(watches=watching("configmaps", representation="metadata")),
        causes=(Truth(Cause.BANDWIDTH, here=True),),
    ),
    Fault(
        "html-with-200",
        "a proxy in between answers with HTML and status 200",
        parts.html_with_200,
        counts("closed server/garbage", also=NETWORK, until=("closed server/garbage",)),
        Setup(plain=True),
    ),
    Fault(
        "long-line",
        "a line of 20 MiB, where 64 MiB are allowed",
        on_link("long-line"),  # it is over before the next watch opens: on a new connection it would strike once more
        counts("garbage", until=("garbage",)),
        Setup(plain=True),
    ),
    Fault(
        "too-long-line",
        "a line of 20 MiB, where 1 MiB is allowed",
        on_link("long-line"),
        counts("closed server/oversize", "relist errors", "gap", until=("closed server/oversize",), forgets=True),
        Setup(plain=True, keys={"limits": {"maxLine": "1Mi"}}),
    ),
    Fault(
        "slow-link",
        "everything from one apiserver is late",
        late(lambda scene: [scene.link], "normal 2s 200ms"),
        causes=(Truth(Cause.APISERVER_SENDING, here=True),),
        on_call=OnCall(
            frozenset({"late"}),
            150.0,
            "everything from one apiserver is 2 s late",
            (fires(900.0, "KubeWatchLatencyBadMinutes"), fires(780.0, "KubeWatchApiserverTicksSlow")),
            LATENESS,
        ),
    ),
    Fault(
        "slower-link",
        "everything from one apiserver is half a second late",
        late(lambda scene: [scene.link], "normal 500ms 50ms"),
        on_call=OnCall(frozenset({"cause", "late"}), 120.0, allowed=LATENESS),
    ),
    Fault(
        "cut", "nothing passes between one apiserver and its clients", on_link("frozen-link"), on_call=unanswered("")
    ),
    Fault(
        "unreachable",
        "every connection to the apiserver is reset",
        parts.unreachable,
        raises=(raises("linked", "KubeWatchApiserverUnresponsive", "KubeWatchDown"),),
    ),
    Fault(
        "slow-ticks",
        "everything from the apiserver is 700 ms late",
        late(lambda scene: [scene.link], "constant 700ms"),
        raises=(raises("linked", "WatchsloClockSlow"), raises("compared", "KubeWatchApiserverTicksSlow")),
    ),
    Fault(
        "unreached-witnesses",
        "the other announced apiservers cannot be reached",
        parts.unreachable_witnesses,
        raises=(raises("alone", "WatchsloWitnessesUnreached"),),
    ),
    Fault(
        "watch-stalled",
        "nothing arrives on the connection of one watch",
        parts.watch_stalled,
        causes=(Truth(Cause.STALLED_STREAM, here=True),),
    ),
    Fault(
        "watch-parked",
        "one watch is held and catches up, again and again",
        parts.watch_parked,
        causes=(Truth(Cause.PARKED_WATCH, here=True),),
    ),
    # The storage and the caches
    once(
        "compacted",
        "compaction past the watch's revision while it is closed",
        parts.compacted,
        counts(*EXPIRED, "closed network/reset", also=NETWORK | {"expired open", "expired stream"}, forgets=True),
        Setup(watches=watching("events")),
    ),
    Fault(
        "frozen-cache",
        "one resource's watch cache is frozen",
        parts.frozen_cache,
        counts("stall", "beyond the threshold", until=("stall",)),
        Setup(watches=watching("secrets")),
        causes=(Truth(Cause.STALLED_STREAM, watch=OVERRIDDEN),),
        raises=(raises("frozen", "KubeWatchStalled"),),
        on_call=OnCall(
            frozenset({"stalled", "late"}),
            240.0,
            "the watch caches of one resource receive nothing",
            (fires(240.0, "KubeWatchStalled"),),
            LATENESS,
        ),
    ),
    Fault(
        "etcd-slow",
        "etcd is slow for all apiservers",
        late(parts.every_storage, most=1.0),
        causes=(Truth(Cause.STORAGE_SLOW),),
    ),
    Fault(
        "etcd-link-slow",
        "the link from etcd to one apiserver is slow",
        late(parts.one_storage),
        causes=(Truth(Cause.CACHE_BEHIND, here=True),),
    ),
    Fault(
        "resource-slow",
        "the commits of one resource reach its watch caches late",
        late(lambda scene: [scene.storage], "constant 2s"),
        causes=(Truth(Cause.RESOURCE_DECODING, watch=OVERRIDDEN),),
        raises=(
            raises(
                "late",
                burn("1h", "5m"),
                burn("6h", "30m"),
                burn("1d", "2h", slow=True),
                burn("3d", "6h", slow=True),
                "KubeWatchLatencyBadMinutes",
                Alert("KubeWatchClusterBadMinutes", {"scope": "cluster"}),
                Alert("KubeWatchClusterBadMinutes", {"scope": "apiserver"}),
            ),
        ),
    ),
    Fault(
        "expired-storm",
        "all watches of one resource end with 410 again and again",
        parts.expired_storm,
        causes=(Truth(Cause.HEADROOM_SHORT, watch=OVERRIDDEN),),
        raises=(raises("expired", "KubeWatchExpiredLoop", "KubeWatchRelistStorm"),),
        on_call=OnCall(
            frozenset({"down", "late", "stalled", "cause"}),
            180.0,
            "all watches of one resource end with 410 every 10 s",
            (fires(180.0, "KubeWatchExpiredLoop"),),
            frozenset({"KubeWatchHeadroomShort"}) | LATENESS,
            frozenset({"KubeWatchRelistStorm"}),
        ),
    ),
    Fault(
        "stale-lists",
        "lists come from a frozen cache, and watches end with 410",
        simulated("frozen-cache", "expired"),
        raises=(raises("stale", "KubeWatchGuaranteeViolated"),),
    ),
    Fault(
        "short-history",
        "the watch cache holds 20 changes, and lists are slow",
        parts.short_history,
        raises=(raises("forgetful", "KubeWatchHeadroomShort"),),
    ),
    Fault(
        "unattended",
        "no controller observes a new deployment",
        parts.unattended,
        raises=(raises("unattended", "KubeReactionSlow"),),
    ),
    Fault(
        "stale-informer",
        "the informers of a client receive nothing",
        parts.stale_informer,
        raises=(raises("outdated", "KubeInformerStale"),),
    ),
    # Rights, credentials and CRDs
    Fault(
        "rights-revoked",
        "the right to watch is taken away and given back",
        parts.rights_revoked,
        counts("closed network/reset", "closed credentials/forbidden", until=("closed credentials/forbidden",)),
        ACCOUNT,
        raises=(raises("refused", "WatchsloForbidden"),),
        on_call=OnCall(
            frozenset({"down"}),
            150.0,
            "the right to watch one API group is taken away",
            (fires(400.0, "WatchsloForbidden"),),
            silenced=frozenset({"KubeWatchDown"}),
        ),
    ),
    Fault(
        "token-expired",
        "the token expires, and a new one comes later",
        parts.token_expired,
        counts("closed credentials/unauthorized", also=NETWORK | {"closed credentials/rotated"}),
        Setup(prepare=parts.token_file),
        on_call=OnCall(
            frozenset({"no_data", "clock_stopped"}),
            120.0,
            "the token expires, and a new one comes after two minutes",
            allowed=frozenset({"WatchsloUnmeasurable", "WatchsloCoverageLow"}),
        ),
    ),
    once(
        "too-many-requests",
        "all requests are answered with 429 for a minute",
        parts.too_many_requests,
        counts("closed network/reset", "closed server/throttled"),
        ACCOUNT,
    ),
    once(
        "crd-changed",
        "a CRD is changed",
        parts.crd_changed,
        # The new CRD has a new watch cache, and earlier writes may be too old for it.
        counts("closed server", also=FORGOTTEN, forgets=True),
        Setup(watches=watching(f"gadgets.{GROUP}")),
    ),
    once(
        "crd-recreated",
        "a CRD is deleted and created again",
        parts.crd_recreated,
        counts(
            "closed server/not_found",
            "closed server/crd_deleted",
            "relist expired",
            "gap",
            also=FORGOTTEN,
            forgets=True,
        ),
        Setup(watches=watching(f"gizmos.{GROUP}")),
    ),
    Fault(
        "watch-list-off",
        "the apiserver streams no lists (gate WatchList off)",
        parts.nothing,
        counts("list fallback", also=("unmeasured domain",), from_start=True),
        CREATIONS,
    ),
    # Other clients and webhooks
    Fault(
        "relist-storm",
        "hundreds of clients list again and again",
        parts.relist_storm,
        causes=(Truth(Cause.RELIST_STORM),),
        on_call=OnCall(frozenset({GOOD, "cause", "late"}), 120.0, allowed=LATENESS, tolerated=frozenset({"undecided"})),
    ),
    Fault(
        "hot-loop",
        "a controller changes one object without a pause",
        parts.hot_loop,
        on_call=harmless(seconds=120.0),
    ),
    Fault(
        "webhook-slow",
        "a webhook delays the creation of pods",
        parts.webhook_slow,
        causes=(Truth(Cause.WRITE_PATH, watch="pods"),),
    ),
    Fault(
        "conversion-dead",
        "the conversion webhook of a custom resource is dead",
        parts.conversion_dead,
        on_call=OnCall(frozenset({"down"}), 120.0, allowed=frozenset({"KubeWatchDown"})),
    ),
    # The daemon itself
    once(
        "loop-blocked",
        "the daemon's own loop is blocked for 3 s",
        parts.loop_blocked,
        counts("unmeasured tainted"),
        Setup(),
    ),
    once(
        "wall-clock-stepped",
        "the daemon's wall clock is an hour ahead for 10 s",
        parts.wall_clock_stepped,
        counts(),
        CREATIONS,
    ),
    Fault(
        "starved",
        "watchslo stands still for a part of the time",
        parts.starved,
        causes=(Truth(Cause.MONITOR_OVERLOADED),),
        raises=(
            raises(
                "starved",
                Alert("WatchsloOverloaded", {"instances": "most"}),
                Alert("WatchsloOverloaded", {"instances": "some"}, cluster=CROWD),
                "WatchsloUnmeasurable",
                "WatchsloCoverageLow",
            ),
        ),
        on_call=OnCall(
            frozenset({"monitor_problem", "cause", "no_data", "undecided"}),
            150.0,
            "watchslo stands still for half of the time",
            (fires(800.0, "WatchsloOverloaded"),),
            frozenset({"WatchsloUnmeasurable", "WatchsloCoverageLow"}),
            tolerated=frozenset({NO_ANSWER}),  # 503, while it stands still
        ),
    ),
    Fault(
        "restarted-watchslo",
        "watchslo is stopped, and started again after 10 s",
        momentary(parts.restarted),
        on_call=OnCall(frozenset({NO_ANSWER, "starting", "no_data"})),
    ),
    Fault(
        "upgraded",
        "all apiservers are upgraded, one after another",
        momentary(parts.upgraded),
        on_call=hardly_noticed(f"all apiservers are upgraded to {parts.NEXT_VERSION}, one after another"),
    ),
    Fault(
        "mistaken-reload",
        "the changed configuration has a mistake",
        parts.misconfigured,
        raises=(raises("hung", "WatchsloConfigReloadFailed"),),
        # The previous configuration measures on, so the watches are judged as before.
        on_call=OnCall(frozenset({GOOD, DISTRUSTED}), 400.0, alerts=(fires(400.0, "WatchsloConfigReloadFailed"),)),
    ),
    Fault(
        "hung",
        "the only daemon hangs",
        stopped(lambda scene: scene.daemon.process),
        raises=(raises("hung", "WatchsloTargetDown", "WatchsloAbsent"),),
    ),
    Fault("no-fault", "no fault", parts.nothing, causes=()),
    # What a real apiserver cannot have in a test, or not within a minute
    once(
        "cache-too-small",
        "a watch cache too small for the list's duration",
        parts.cache_too_small,
        counts(*EXPIRED, "expired stream", forgets=True),
        Setup("simulated", watching("configmaps", list="paged")),
    ),
    once(
        "revision-too-large",
        "a streamed list is answered with 504: too large revision",
        parts.revision_too_large,
        counts(*EXPIRED, "expired stream", forgets=True),
        Setup("simulated", watching("pods", list="stream")),
    ),
    Fault(
        "stale-closes",
        "a stale revision is answered with clean closes, again and again",
        simulated("stale-close"),
        counts(
            "closed server/empty_close",
            "relist errors",
            "gap",
            also=("closed server/forced",),
            until=("relist errors",),
            forgets=True,
        ),
        Setup("simulated", watching("leases.coordination.k8s.io")),
    ),
    Fault(
        "slow-encoding",
        "whole objects are late, and the events of a small representation are not",
        simulated("slow-encoding"),
        counts("whole objects late", until=("whole objects late",), times=40),
        Setup("simulated", watching("events", reference=True)),
    ),
    violating("lost-event", "a watch loses one event", "violated reliable"),
    violating("lost-range", "a watch loses ten events in a row", "violated reliable"),
    violating("lost-delete", "a watch loses a DELETED event", "violated reliable", strike=parts.lost_delete),
    violating("duplicate-event", "a watch gets an event twice", "violated unique"),
    violating("swapped-events", "a watch gets two events in the opposite order", "violated ordered"),
    violating("early-bookmark", "a watch gets a bookmark before an event that it covers", "violated bookmarkable"),
    violating("backward-bookmark", "a watch gets a bookmark older than the one before", "violated bookmarkable"),
    violating(
        "skipped-resume",
        "a watch misses the first event after its connection was cut",
        "violated resumable",
        "closed network",
        strike=parts.skipped_resume,
    ),
    Fault(
        "wrong-type",
        "a watch gets a MODIFIED event as ADDED",
        parts.wrong_type,
        counts(seconds=12.0),  # the simulator edits an event every 5 s
        VIOLATED,
    ),
)
