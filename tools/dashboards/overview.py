"""Dashboard "Overview": the ten panels to begin with, for one cluster or several."""

from tools.dashboards.panels import (
    ALL_OR_NOTHING,
    CLUSTER,
    LATE,
    NEEDS_BASIC,
    NONE_IS_GOOD,
    Board,
    Look,
    Panel,
    Section,
    Target,
    Unit,
    high_is_bad,
    in_range,
    increase,
    low_is_bad,
    number_panel,
    verdict_targets,
)
from tools.dashboards.slo import BUDGET, BUDGET_LEFT, GOOD_MINUTES_OF, MINUTES, REACTION_P99, WINDOW
from watchslo import RUNBOOKS

OF_CLUSTERS = 'cluster=~"$cluster"'
WORST = 10
LAST_MINUTE = f'{OF_CLUSTERS}, q="0.99", window="1m"'
WATCH_LABELS = "cluster, apiserver, watch"
TAINTED = f"sum by (cluster, job, instance) (rate(watchslo_tainted_seconds_total{{{OF_CLUSTERS}}}[$__range]))"


def _p99(bound: str) -> str:
    return f'max by ({WATCH_LABELS}) ({WINDOW}{{{LAST_MINUTE}, bound="{bound}"}})'


UPPER_BOUNDS = f"topk({WORST}, {_p99('upper')})"
NOTE = (
    f"**What next?** *Late*: [runbook]({RUNBOOKS}/KubeWatchLatencyBudgetBurn.md), then *watchslo / SLO* for the watch, "
    f"the hop and the cause. *Not delivered*: [stalled]({RUNBOOKS}/KubeWatchStalled.md), "
    f"[closed]({RUNBOOKS}/KubeWatchDown.md) or [lost]({RUNBOOKS}/KubeWatchGuaranteeViolated.md), then "
    f"*watchslo / Protocol*. *Slow reactions*: [runbook]({RUNBOOKS}/KubeReactionSlow.md). *Time measured* below 90%: "
    "*watchslo / Trust*."
)

SECTION = Section(
    "How late are watch events?",
    (
        number_panel(
            "Good minutes, 1 d",
            "One number for a cluster: the share of the judged minutes of the last day in which P99 of all events was "
            "within the threshold. With several clusters, the worst one. Requires the recording rules.",
            f"min (cluster:{GOOD_MINUTES_OF}{{{OF_CLUSTERS}}})",
            MINUTES,
            Unit.SHARE,
            width=4,
        ),
        number_panel(
            "Remaining budget",
            "Share of the error budget that the worst watch has left in the period of its objective; at 0 the "
            "objective is missed. Requires the recording rules.",
            f"min (clamp_min({BUDGET_LEFT}{{{OF_CLUSTERS}}}, 0))",
            BUDGET,
            Unit.SHARE,
            width=4,
        ),
        number_panel(
            "Apiservers that answer",
            "Share of the pairs of an instance and an apiserver in which the apiserver answers. One that answers "
            "nothing delivers nothing.",
            f"sum (watchslo_apiserver_up{{{OF_CLUSTERS}}}) / count (watchslo_apiserver_up{{{OF_CLUSTERS}}})",
            ALL_OR_NOTHING,
            Unit.SHARE,
            width=4,
        ),
        number_panel(
            "Stalled or closed watches",
            "Watches that withhold events, and watches that are closed, of all instances: nothing arrives there.",
            f"sum (watchslo_watch_stalled{{{OF_CLUSTERS}}} + 1 - watchslo_watch_up{{{OF_CLUSTERS}}})",
            NONE_IS_GOOD,
            width=4,
        ),
        number_panel(
            "Lost events",
            "Events and bookmarks in the displayed range that broke a guarantee: lost, repeated or out of order.",
            in_range("watchslo_watch_guarantee_violations_total", OF_CLUSTERS),
            NONE_IS_GOOD,
            width=4,
        ),
        number_panel(
            "Time measured",
            "Share of the displayed range in which the most loaded instance could measure. In the rest, watchslo "
            "itself was late.",
            f"min (1 - {TAINTED})",
            low_is_bad(0.5, 0.9),
            Unit.SHARE,
            width=4,
        ),
        Panel(
            "Worst watches",
            f"P99 of the last minute of the {WORST} watches with the highest upper bound. The true value is proven to "
            "lie between the bounds; without an estimate, events are faster than a tick.",
            Look.TABLE,
            Unit.SECONDS,
            (
                Target(UPPER_BOUNDS, "At most"),
                *(
                    Target(f"{_p99(bound)} and on ({WATCH_LABELS}) {UPPER_BOUNDS}", title)
                    for bound, title in (("estimate", "P99"), ("lower", "At least"))
                ),
            ),
            LATE,
            width=24,
        ),
        Panel(
            "Verdict by cluster",
            "Instances by the verdict that their pages show. Others cannot judge, such as those that start or have no "
            "events.",
            Look.STACK,
            Unit.COUNT,
            verdict_targets(OF_CLUSTERS),
            width=8,
        ),
        Panel(
            "P99 of reactions by step",
            "From the commit that asks for something to the commit that shows that its controller acted, over five "
            "minutes. Requires the recording rules.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    f"max by (cluster, resource, step) ({REACTION_P99}{{{OF_CLUSTERS}}})",
                    "{{cluster}} {{resource}} {{step}}",
                ),
            ),
            width=8,
        ),
        Panel(
            "410 answers and relists",
            "Answers 410, and lists that watches had to repeat. Clients reload everything then, and miss what happens "
            "during that time.",
            Look.LINES,
            Unit.COUNT,
            (
                Target(increase("watchslo_expired_total", OF_CLUSTERS, "cluster"), "{{cluster}} 410"),
                Target(
                    increase("watchslo_relists_total", f'{OF_CLUSTERS}, reason!~"start|inventory"', "cluster"),
                    "{{cluster}} relists",
                ),
            ),
            high_is_bad(1, 10),
            width=8,
        ),
    ),
)

BOARD = Board(
    "watchslo-overview",
    "watchslo / Overview",
    f"Whether watch events are late, in ten panels; the other dashboards say why. {NEEDS_BASIC}",
    (CLUSTER,),
    (SECTION,),
    note=NOTE,
)
