"""Polls a Prometheus: which alerts fire, and which queries have had an answer so far."""

import contextlib
import itertools
from collections.abc import Iterable, Mapping, Sequence

from tests.support.background import Background
from tests.support.prometheus import Prometheus

LOOK_SECONDS = 0.5
QUERY_EVERY = 6  # looks
Labels = Mapping[str, str]


class Poller(Background):
    """Polls while its context is open.

    `unanswered` are the queries that never had a finite number as an answer, `wrong` those that failed, with the error.
    `fired` are the names of all alerts that ever fired, by cluster; `annotations` are the texts of their annotations.
    """

    def __init__(self, prometheus: Prometheus, queries: Iterable[str] = ()) -> None:
        super().__init__()
        self._prometheus = prometheus
        self.unanswered = dict.fromkeys(queries)
        self.wrong: dict[str, str] = {}
        self.fired: dict[str, set[str]] = {}
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
        for alert in firing:
            labels: Labels = alert["labels"]
            self.fired.setdefault(labels.get("cluster", ""), set()).add(labels["alertname"])
            self.annotations.update(alert["annotations"].values())
        self._firing = [alert["labels"] for alert in firing]

    def _query(self) -> None:
        for query in list(self.unanswered):
            try:
                if self._prometheus.finite(query):
                    del self.unanswered[query]
            except AssertionError as error:
                self.wrong[query] = str(error)
