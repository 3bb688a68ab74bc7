"""An alert as it is declared, and the words that several alerts share."""

from dataclasses import dataclass, field

from watchslo.rules.rule import RuleDefinition
from watchslo.rules.settings import RuleSettings

LATE, UNNOTICED = "Pods may start late and endpoints go stale", "Late events may not be noticed"
WATCHES, INSTANCES = "Affected watches: {{ $value }}", "Affected instances: {{ $value }}"
EVENTS, MINUTES, DELIVERY, MONITOR = "watch-latency-events", "watch-latency-minutes", "watch-delivery", "watchslo"
REACTIONS, CACHES = "controller-reactions", "client-caches"
DASHBOARDS = {
    EVENTS: "watchslo-slo",
    MINUTES: "watchslo-slo",
    REACTIONS: "watchslo-slo",
    CACHES: "watchslo-slo",
    DELIVERY: "watchslo-protocol",
    MONITOR: "watchslo-trust",
}
"""The uid of the dashboard that shows what an alert is about, by the label `slo`; an alert may name another one."""

LAST_WINDOWS = 15  # how many windows an alert on windows reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert before `shrink` is applied: `wait` is its `for` in seconds, `labels` are added to severity and slo.

    `impact` says what users of the cluster feel, or what they no longer learn; its runbook begins with it.
    """

    name: str
    severity: str
    slo: str
    expression: str
    wait: float
    impact: str
    summary: str
    description: str
    labels: dict[str, str] = field(default_factory=dict)
    dashboard: str = ""

    def rule(self, settings: RuleSettings) -> RuleDefinition:
        return RuleDefinition(
            self.name,
            self.expression,
            settings.wait(self.wait) if self.wait else "",
            {"severity": self.severity, "slo": self.slo, **self.labels},
            {
                "summary": f"{self.impact}: {self.summary}",
                "description": self.description,
                "runbook_url": settings.runbook(self.name),
                **settings.dashboard(self.dashboard or DASHBOARDS[self.slo]),
            },
        )
