"""Judges which alerts fire in a real Prometheus, whose rules have windows as short as the faults."""

import contextlib
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence

from tests.lab.expected import Alert, Raised
from tests.lab.judges.judge import Judge
from tests.lab.scene import LOOK_SECONDS, Fault, Hit, Scene
from tests.support.background import Background
from tests.support.process import PATIENCE_SECONDS, eventually
from tests.support.prometheus import Prometheus

QUERY_EVERY = 6  # looks
DAY_SECONDS = 240.0  # of the Prometheus of slow alerts; the slowest needs a day of history
Labels = Mapping[str, str]


class Poller(Background):
    """Polls a Prometheus while its context is open.

    `unanswered` are the queries that never had a finite number as an answer, `wrong` those that failed, with the error.
    `annotations` are the texts of the annotations of all alerts that ever fired.
    """

    def __init__(self, prometheus: Prometheus, queries: Iterable[str] = ()) -> None:
        super().__init__()
        self._prometheus = prometheus
        self.unanswered = dict.fromkeys(queries)
        self.wrong: dict[str, str] = {}
        self.annotations: set[str] = set()
        self._firing: Sequence[Labels] = ()

    def fires(self, labels: Labels) -> bool:
        """Return whether an alert with these labels was firing at the last look."""
        return any(labels.items() <= firing.items() for firing in self._firing)

    def _run(self) -> None:
        for look in itertools.count():
            with contextlib.suppress(OSError):  # no answer in time, on a busy machine
                self._look()
                if look % QUERY_EVERY == 0:
                    self._query()
            if self._over.wait(LOOK_SECONDS):
                return

    def _look(self) -> None:
        firing = [alert for alert in self._prometheus.alerts() if alert["state"] == "firing"]
        self.annotations.update(text for alert in firing for text in alert["annotations"].values())
        self._firing = [alert["labels"] for alert in firing]

    def _query(self) -> None:
        for query in list(self.unanswered):
            try:
                if self._prometheus.finite(query):
                    del self.unanswered[query]
            except AssertionError as error:
                self.wrong[query] = str(error)


class AlertsJudge(Judge):
    """Expects that each alert of a fault fires during it, and resolves after it.

    `fired` and `resolved` are the seconds from the beginning, and from the end, by the alert.
    """

    def __init__(self, scene: Scene, hours: Poller, days: Poller) -> None:
        self._scene = scene
        self._hours = hours
        self._days = days
        self._raised = Raised(scene.name, ())
        self.fired: dict[str, float] = {}
        self.resolved: dict[str, float] = {}

    def concerns(self, fault: Fault) -> bool:
        return any(raised.cluster == self._scene.name for raised in fault.raises)

    def prepare(self, fault: Fault) -> None:
        """Wait until the daemon measures, and no alert of the fault fires."""
        self._raised = next(raised for raised in fault.raises if raised.cluster == self._scene.name)
        self._scene.daemon.until_measuring(*self._scene.daemon.watches)
        self.least_seconds = DAY_SECONDS if any(alert.slow for alert in self._raised.alerts) else 0.0
        self.fired.clear()
        self.resolved.clear()
        eventually(lambda: not any(map(self._fires, self._raised.alerts)), "none fires", LOOK_SECONDS)

    def struck(self, hit: Hit) -> None:
        """The cluster distinguishes the alerts of several lanes."""

    def seen(self) -> bool:
        """Return whether every alert has fired."""
        return self._take(self.fired, self._scene.began, firing=True)

    def finish(self) -> None:
        ended = self._scene.ended or time.monotonic()
        until = ended + self.least_seconds + PATIENCE_SECONDS
        while not self._take(self.resolved, ended, firing=False) and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        print(f"{self._scene.name}: fired {self.fired}, resolved {self.resolved}", flush=True)

    def complaints(self) -> list[str]:
        names = [alert.id for alert in self._raised.alerts]
        silent = [f"{name} does not fire" for name in names if name not in self.fired]
        return silent + [f"{name} does not resolve" for name in names if name not in self.resolved]

    def _take(self, took: dict[str, float], since: float, *, firing: bool) -> bool:
        """Note the alerts that fire, or do not; return whether all are noted."""
        for alert in self._raised.alerts:
            if alert.id not in took and self._fires(alert) is firing:
                took[alert.id] = round(time.monotonic() - since, 1)
        return len(took) == len(self._raised.alerts)

    def _fires(self, alert: Alert) -> bool:
        poller = self._days if alert.slow else self._hours
        return poller.fires(alert.firing_labels(self._scene.name))
