"""Dashboard "Nodes": what instances with `mode: node` export, as in the profile `node`."""

from tools.dashboards.panels import (
    ALL_OR_NOTHING,
    CLUSTER,
    NONE_IS_GOOD,
    PLAIN,
    Board,
    Look,
    Panel,
    Section,
    Target,
    Unit,
    Variable,
    high_is_bad,
    in_range,
    increase,
    number_panel,
    tick_targets,
    verdict_targets,
)

JOB = Variable("job", "Profile", "watchslo_build_info", 'cluster=~"$cluster"', selected="watchslo-node")
OF_JOBS = 'cluster=~"$cluster", job=~"$job"'
APISERVER = Variable("apiserver", "Apiserver", "watchslo_watch_up", OF_JOBS)
WATCH = Variable("watch", "Watch", "watchslo_watch_up", f'{OF_JOBS}, apiserver=~"$apiserver"')
INSTANCE = Variable("instance", "watchslo", "watchslo_build_info", OF_JOBS)

OF_INSTANCES = f'{OF_JOBS}, instance=~"$instance"'
OF_APISERVERS = f'{OF_INSTANCES}, apiserver=~"$apiserver"'
OF_WATCHES = f'{OF_APISERVERS}, watch=~"$watch"'

NODE_LABELS = "cluster, node, instance"  # `node` comes from the PodMonitor; without it, instances are shown
NODE_LEGEND = "{{cluster}} {{node}} {{instance}}"
WORST = 10
EVENTS = "watchslo_slo_events_total"
LATE = f'{OF_WATCHES}, verdict="beyond"'
UNCERTAIN = f'{OF_WATCHES}, verdict="uncertain"'
CUT = f'{OF_WATCHES}, class!="deadline"'
OF_PROCESSES = f"and on (cluster, job, instance) watchslo_build_info{{{OF_INSTANCES}}}"
MIB = 2**20

NOTE = (
    "These instances tick too seldom for quantiles. **Proven**: events that were certainly late, lost events, stalled "
    "watches, closed watches, relists and 410s. **Not measured**: P99, minutes, causes. An event that is late by L is "
    "proven late with a probability of about (L - threshold) / `clock.interval`, more in a burst: *no late event* on "
    "one node says little, so look for nodes that differ from the others. The dashboard *watchslo / SLO*, with "
    f"instances of another profile, has the latencies. Tables and graphs by node show the {WORST} worst nodes; the "
    "PodMonitor attaches the label `node`."
)


def _by_node(counter: str, matchers: str, over: str) -> str:
    return f"sum by ({NODE_LABELS}) (increase({counter}{{{matchers}}}[{over}]))"


def _worst(counter: str, matchers: str) -> tuple[Target, ...]:
    return (Target(f"topk({WORST}, {_by_node(counter, matchers, '$__rate_interval')})", NODE_LEGEND),)


WORST_NODES = f"topk({WORST}, round({_by_node(EVENTS, LATE, '$__range')}))"


def _column(title: str, counter: str, matchers: str) -> Target:
    """Return a column for the nodes of the first column only: there may be thousands of others."""
    return Target(f"round({_by_node(counter, matchers, '$__range')}) and on ({NODE_LABELS}) {WORST_NODES}", title)


NOW = Section(
    "Now",
    (
        number_panel(
            "Instances",
            "Instances that Prometheus scrapes: one on each node.",
            f"count (watchslo_build_info{{{OF_INSTANCES}}})",
            ALL_OR_NOTHING,
        ),
        number_panel(
            "Connected watches",
            "Watches that are open now, of all nodes.",
            f"sum (watchslo_watch_up{{{OF_WATCHES}}})",
            ALL_OR_NOTHING,
        ),
        number_panel(
            "Closed watches",
            "Watches that are closed now: nothing arrives on these nodes. One that reopens is counted for a second.",
            f"sum (1 - watchslo_watch_up{{{OF_WATCHES}}})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Stalled watches",
            "Open watches that are proven to withhold events now. Audits find a stall within some minutes.",
            f"sum (watchslo_watch_stalled{{{OF_WATCHES}}})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Nodes with late events",
            "Nodes to which an event was proven late in the displayed range.",
            f"sum ({_by_node(EVENTS, LATE, '$__range')} > bool 0)",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Violations",
            "Events and bookmarks in the displayed range that broke a guarantee of their watch, such as lost ones.",
            f"round({in_range('watchslo_watch_guarantee_violations_total', OF_WATCHES)})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "410 answers",
            "Answers 410 in the displayed range: the client had fallen behind the history and listed again.",
            f"round({in_range('watchslo_expired_total', OF_WATCHES)})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Uncertain share",
            "Share of events that are proven neither within the threshold nor late, because no tick fell close enough. "
            "High with slow ticks, and not a fault.",
            f"sum (rate({EVENTS}{{{UNCERTAIN}}}[$__rate_interval])) / "
            f"sum (rate({EVENTS}{{{OF_WATCHES}}}[$__rate_interval]))",
            PLAIN,
            Unit.SHARE,
        ),
    ),
)

BEHIND = Section(
    "Nodes that are behind",
    (
        Panel(
            "Instances by verdict",
            "Instances by the verdict that their pages would show: which faults there are, and on how many nodes. "
            "Others cannot judge, such as those that start or have no events.",
            Look.STACK,
            Unit.COUNT,
            verdict_targets(OF_INSTANCES),
            width=16,
        ),
        Panel(
            "Silent apiservers",
            "Instances whose apiserver has sent nothing for 10 s although it was asked: the apiserver is down, or the "
            "way to it.",
            Look.LINES,
            Unit.COUNT,
            (
                Target(
                    f"sum by (apiserver) (1 - watchslo_apiserver_up{{{OF_APISERVERS}}})",
                    "{{apiserver}}",
                ),
            ),
            NONE_IS_GOOD,
        ),
        Panel(
            "Worst nodes",
            f"The {WORST} nodes with the most events that were proven late in the displayed range, with what else "
            "happened there. Zeros: nothing was proven.",
            Look.TABLE,
            Unit.COUNT,
            (
                Target(WORST_NODES, "Proven late"),
                _column("Uncertain", EVENTS, UNCERTAIN),
                _column("Events", EVENTS, OF_WATCHES),
                _column("Violations", "watchslo_watch_guarantee_violations_total", OF_WATCHES),
                _column("Stalls", "watchslo_stalls_total", OF_WATCHES),
                _column("Cut watches", "watchslo_watches_closed_total", CUT),
                _column("410s", "watchslo_expired_total", OF_WATCHES),
            ),
            NONE_IS_GOOD,
            width=24,
        ),
        Panel(
            "Proven late events by node",
            f"Events that were proven late, of the {WORST} worst nodes at each time. All nodes at once: look at the "
            "apiserver. A few: look at their network.",
            Look.LINES,
            Unit.COUNT,
            _worst(EVENTS, LATE),
        ),
        Panel(
            "Cut watches by node",
            f"Watches that ended other than at their deadline, of the {WORST} worst nodes at each time.",
            Look.LINES,
            Unit.COUNT,
            _worst("watchslo_watches_closed_total", CUT),
        ),
        Panel(
            "Closed and stalled watches",
            "Watches that are closed, and open ones that are proven to withhold events.",
            Look.LINES,
            Unit.COUNT,
            (
                Target(f"sum (1 - watchslo_watch_up{{{OF_WATCHES}}})", "closed", colour="orange"),
                Target(f"sum (watchslo_watch_stalled{{{OF_WATCHES}}})", "stalled", colour="red"),
            ),
        ),
    ),
)

PROOF = Section(
    "What is proven",
    (
        Panel(
            "Events by proven verdict",
            "Events of all nodes, by whether they are proven within the threshold, late (beyond), or neither.",
            Look.STACK,
            Unit.EVENTS,
            tuple(
                Target(
                    f'sum (rate({EVENTS}{{{OF_WATCHES}, verdict="{verdict}"}}[$__rate_interval]))',
                    verdict,
                    colour=colour,
                )
                for verdict, colour in (("within", "green"), ("uncertain", "orange"), ("beyond", "red"))
            ),
        ),
        Panel(
            "Ticks by result",
            "Ticks of all nodes. Without successful ticks no event is dated, and no lateness is proven.",
            Look.STACK,
            Unit.REQUESTS,
            tick_targets(OF_APISERVERS),
        ),
        Panel(
            "Unmeasured events",
            "Events without a verdict: before the first tick, of another storage, or while watchslo itself was late.",
            Look.LINES,
            Unit.EVENTS,
            (
                Target(
                    f"sum by (apiserver) (rate(watchslo_unmeasured_events_total{{{OF_WATCHES}}}[$__rate_interval]))",
                    "{{apiserver}}",
                ),
            ),
        ),
    ),
)

PROTOCOL = Section(
    "Protocol",
    (
        Panel(
            "Relists by reason",
            "Lists of all nodes. Many at once, other than at a rollout, load the apiserver.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_relists_total", OF_WATCHES, "reason"), "{{reason}}"),),
        ),
        Panel(
            "410 answers by node",
            f"Answers 410 of the {WORST} worst nodes at each time: their clients were behind the history of the cache.",
            Look.LINES,
            Unit.COUNT,
            _worst("watchslo_expired_total", OF_WATCHES),
        ),
        Panel(
            "Ends of watches by class",
            "Watches that ended, of all nodes. The class deadline is normal.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_watches_closed_total", OF_WATCHES, "class"), "{{class}}"),),
        ),
    ),
)

COST = Section(
    "What it costs",
    (
        Panel(
            "Memory",
            "Resident memory of an instance: the median and the largest. About 70 MiB is normal; the limit of the "
            "profile is 144 MiB.",
            Look.LINES,
            Unit.BYTES,
            (
                Target(f"quantile (0.5, process_resident_memory_bytes {OF_PROCESSES})", "median"),
                Target(f"max (process_resident_memory_bytes {OF_PROCESSES})", "largest"),
            ),
            high_is_bad(100 * MIB, 144 * MIB),
        ),
        Panel(
            "CPU",
            "Cores used by an instance: the median and the largest.",
            Look.LINES,
            Unit.CORES,
            (
                Target(
                    f"quantile (0.5, rate(process_cpu_seconds_total[$__rate_interval]) {OF_PROCESSES})",
                    "median",
                ),
                Target(f"max (rate(process_cpu_seconds_total[$__rate_interval]) {OF_PROCESSES})", "largest"),
            ),
            high_is_bad(0.05, 0.5),
        ),
        Panel(
            "Requests to the apiserver",
            "Requests per second of all nodes together, by status code. Ticks are one per node and `clock.interval`.",
            Look.STACK,
            Unit.REQUESTS,
            (
                Target(
                    f"sum by (code) (rate(watchslo_api_requests_total{{{OF_APISERVERS}}}[$__rate_interval]))",
                    "{{code}}",
                ),
            ),
        ),
    ),
)

BOARD = Board(
    "watchslo-node",
    "watchslo / Nodes",
    "Which nodes are cut off or behind, by instances with `mode: node`, such as those of the profile `node`.",
    (CLUSTER, JOB, APISERVER, WATCH, INSTANCE),
    (NOW, BEHIND, PROOF, PROTOCOL, COST),
    note=NOTE,
)
