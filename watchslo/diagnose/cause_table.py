"""The table of causes: the evidence that each cause needs, and what to check next.

The cause rules are applied in the order of the table. A late watch that one explains is hidden from those below, so
each rule only has to distinguish its cause from the causes further down.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from watchslo.diagnose.cause_rules.apiservers import (
    apiserver_cut_off,
    apiserver_gone,
    apiserver_sending,
    cache_behind,
    slow_ticks,
)
from watchslo.diagnose.cause_rules.clients import client_connection, client_slow
from watchslo.diagnose.cause_rules.controllers import controller_slow
from watchslo.diagnose.cause_rules.lists import listing, relist_storm
from watchslo.diagnose.cause_rules.monitor import monitor_overloaded
from watchslo.diagnose.cause_rules.network import bandwidth, slow_path
from watchslo.diagnose.cause_rules.resources import of_one_resource, whole_objects_late, write_path
from watchslo.diagnose.cause_rules.storage import storage_late, storage_poller, storage_slow
from watchslo.diagnose.cause_rules.unknown import not_compared, unknown
from watchslo.diagnose.cause_rules.watches import headroom_short, parked_watch, stalled_stream
from watchslo.diagnose.evidence import Evidence, Place
from watchslo.diagnose.finding import CauseRule, Finding
from watchslo.diagnose.own_figures import own_evidence
from watchslo.snapshot import Cause, Confidence


@dataclass(frozen=True, slots=True)
class CauseTableRow:
    """A row of the table. `next` says what to check; {apiserver} and {watch} are replaced by those of the finding."""

    cause: Cause
    rule: CauseRule
    next: str


Findings = Sequence[tuple[Finding, CauseTableRow]]
"""Findings with their rows."""


def find(evidence: Evidence) -> Generator[None, None, Findings]:
    """Return all findings, in the order of the table; pause after each rule.

    While watchslo itself is late, the confidence of every other cause is low.
    """
    found: list[tuple[Finding, CauseTableRow]] = []
    for row in TABLE:
        explained = {key for finding, _ in found for key in finding.explains}
        found += ((finding, row) for finding in row.rule(evidence, evidence.watches.keys() - explained))
        yield
    if any(finding.cause is Cause.MONITOR_OVERLOADED for finding, _ in found):
        return [
            (finding if finding.cause is Cause.MONITOR_OVERLOADED else replace(finding, confidence=Confidence.LOW), row)
            for finding, row in found
        ]
    return [(_with_own_evidence(finding, evidence), row) for finding, row in found]


def _with_own_evidence(finding: Finding, evidence: Evidence) -> Finding:
    return replace(finding, own=own_evidence(evidence, finding.cause, finding.apiserver, finding.watch))


CHECK_LINK = (
    "Check the connection from {apiserver} to etcd: its etcd_request_duration_seconds, and "
    "apiserver_watch_cache_read_wait_seconds."
)
CHECK_APISERVER = (
    "Check the CPU and the network of {apiserver}: process_cpu_seconds_total, apiserver_watch_events_total, and "
    "apiserver_terminated_watchers_total."
)
CHECK_LISTS = (
    'Find which clients list at {apiserver}: apiserver_request_total{{verb="LIST"}}, '
    "apiserver_current_inflight_requests, apiserver_flowcontrol_rejected_requests_total, and the user agents in "
    "the audit log."
)
TABLE = (
    CauseTableRow(
        Cause.MONITOR_OVERLOADED,
        monitor_overloaded,
        "Give watchslo more CPU or fewer watches. Check watchslo_loop_lag_seconds, and "
        "container_cpu_cfs_throttled_periods_total of its container.",
    ),
    CauseTableRow(
        Cause.STORAGE_SLOW,
        storage_slow,
        "Check etcd: etcd_disk_wal_fsync_duration_seconds, etcd_network_peer_round_trip_time_seconds, and "
        "etcd_request_duration_seconds of the apiservers. With a single apiserver, check its link to etcd too.",
    ),
    CauseTableRow(
        Cause.STORAGE_POLLER,
        storage_poller,
        "If nothing is delivered, restart k3s, or kine, at {apiserver}, and look for its last errors in the log. If "
        "events are late, check the load of the database, and --datastore-poll-interval of kine.",
    ),
    CauseTableRow(
        Cause.CACHE_BEHIND,
        apiserver_cut_off,
        "Check the connection from {apiserver} to etcd: its etcd_request_duration_seconds and the errors in its log.",
    ),
    CauseTableRow(
        Cause.APISERVER_SENDING,
        apiserver_gone,
        "Check that {apiserver} runs and can be reached: its log, its CPU and memory, its /livez.",
    ),
    CauseTableRow(
        Cause.RELIST_STORM,
        relist_storm,
        CHECK_LISTS,
    ),
    CauseTableRow(
        Cause.PARKED_WATCH,
        parked_watch,
        "Check why {apiserver} takes the clients of {watch} for slow: the network between, "
        "apiserver_watch_cache_stalled_watchers and apiserver_terminated_watchers_total, and the rate and the size of "
        "the events.",
    ),
    CauseTableRow(
        Cause.BANDWIDTH,
        bandwidth,
        "Check the network from {apiserver} to its clients: load balancers, bytes per second of its interfaces, its "
        "rest_client metrics and apiserver_watch_events_sizes_sum. Many clients may share one connection.",
    ),
    CauseTableRow(
        Cause.BANDWIDTH,
        slow_path,
        "Measure the round trip to {apiserver}, and check proxies, load balancers and VPNs on the way. If these are "
        "fast, check the CPU of the apiserver: process_cpu_seconds_total.",
    ),
    CauseTableRow(
        Cause.CACHE_BEHIND,
        slow_ticks(Cause.CACHE_BEHIND, Confidence.MEDIUM, cache_slow=False, caches="while its caches are prompt"),
        CHECK_LINK,
    ),
    CauseTableRow(
        Cause.APISERVER_SENDING,
        slow_ticks(Cause.APISERVER_SENDING, Confidence.MEDIUM, cache_slow=True, caches="as are reads of its caches"),
        CHECK_APISERVER,
    ),
    CauseTableRow(
        Cause.UNKNOWN,
        slow_ticks(Cause.UNKNOWN, Confidence.LOW, cache_slow=None, caches="and its caches are not read"),
        "Compare reads of the caches of {apiserver} with its ticks: `hops: true` for one of its watches reads them.",
    ),
    CauseTableRow(
        Cause.CACHE_BEHIND,
        cache_behind,
        CHECK_LINK,
    ),
    CauseTableRow(
        Cause.STORAGE_SLOW,
        storage_late,
        "Check etcd: etcd_debugging_mvcc_slow_watcher_total and etcd_debugging_mvcc_pending_events_total.",
    ),
    CauseTableRow(
        Cause.APISERVER_SENDING,
        apiserver_sending,
        CHECK_APISERVER,
    ),
    CauseTableRow(
        Cause.RESOURCE_DECODING,
        of_one_resource(Cause.RESOURCE_DECODING, Place.STORAGE, "before the watch cache"),
        "Check what is special about {watch}: a storage of its own (--etcd-servers-overrides), a conversion webhook "
        "(apiserver_crd_conversion_webhook_duration_seconds), encryption at rest, large objects.",
    ),
    CauseTableRow(
        Cause.RESOURCE_FANOUT,
        of_one_resource(Cause.RESOURCE_FANOUT, Place.CLIENT, "after the watch cache"),
        "Check how many clients watch {watch} and how large its events are: apiserver_longrunning_requests, "
        "apiserver_watch_events_sizes, apiserver_watch_cache_events_dispatched_total.",
    ),
    CauseTableRow(
        Cause.RESOURCE_FANOUT,
        whole_objects_late,
        "Check how large the objects of {watch} are (apiserver_watch_events_sizes), and the CPU and the network of "
        "{apiserver}: process_cpu_seconds_total, and bytes per second of its interfaces.",
    ),
    CauseTableRow(
        Cause.STALLED_STREAM,
        stalled_stream,
        "Check load balancers and firewalls between watchslo and {apiserver} for silently dropped connections, and the "
        "watch cache of {watch}: apiserver_watch_cache_events_received_total must increase.",
    ),
    CauseTableRow(
        Cause.HEADROOM_SHORT,
        headroom_short,
        "Let clients of {watch} start faster, for example with streamed lists: `watchslo rehearse` compares the list "
        "strategies. Watch caches size themselves within bounds: watch_cache_capacity.",
    ),
    CauseTableRow(
        Cause.WRITE_PATH,
        write_path,
        "Check validating admission and the writes to storage: "
        "apiserver_admission_webhook_admission_duration_seconds, etcd_request_duration_seconds.",
    ),
    CauseTableRow(
        Cause.RELIST_STORM,
        listing,
        CHECK_LISTS,
    ),
    CauseTableRow(
        Cause.CONTROLLER_SLOW,
        controller_slow,
        "Check this controller: its rate limit (rest_client_rate_limiter_duration_seconds), its CPU, its leader "
        "election (leader_election_master_status), and its queue (workqueue_depth, workqueue_queue_duration_seconds).",
    ),
    CauseTableRow(
        Cause.CLIENT_CONNECTION,
        client_connection,
        "Check the CPU of this client (container_cpu_cfs_throttled_periods_total), the network between it and its "
        "apiserver, and how many of its watches share one connection.",
    ),
    CauseTableRow(
        Cause.CLIENT_SLOW,
        client_slow,
        "Check what this client does with each event: its CPU, its locks, and its index and transform functions "
        "(informer_processing_latency_seconds).",
    ),
    CauseTableRow(
        Cause.UNKNOWN,
        not_compared,
        "Watch other resources that change often, such as leases.coordination.k8s.io. If they are late too, check "
        "{apiserver} and the network to it; if not, check what is special about {watch}.",
    ),
    CauseTableRow(
        Cause.UNKNOWN,
        unknown,
        "Compare the hops in /api/v1/status; set `hops: true` for watches that have none.",
    ),
)
