"""The readers of a night: in one thread, they keep what the page, the metric and the alerts say."""

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.lab.statements import (
    NO_ANSWER,
    PROBLEM,
    AlertsStatement,
    FiringAlert,
    Record,
    Statement,
    verdict_exposed,
    word_in_status,
)
from tests.support.alertmanager import Alertmanager
from tests.support.background import Background
from tests.support.daemon import Daemon
from tests.support.prometheus import Prometheus
from tests.support.tmux import Tmux

READ_SECONDS = 1.0
ANSWER_SECONDS = 5.0  # a page that takes longer says nothing
METRIC = "watchslo_verdict"
LOST = "Disconnected since"  # how `top` says that it reaches no daemon

Report = Callable[[str], None]
VerdictReader = Callable[[], tuple[str, str]]
"""Returns a verdict and its sentence; raises OSError without an answer."""


def of_page(url: str) -> VerdictReader:
    """Return a reader of `/api/v1/status`."""

    def read() -> tuple[str, str]:
        try:
            with urllib.request.urlopen(f"{url}/api/v1/status", timeout=ANSWER_SECONDS) as answer:
                return word_in_status(json.load(answer))
        except urllib.error.HTTPError as error:
            error.close()
            return NO_ANSWER, f"HTTP {error.code}"

    return read


class OfTop:
    """A reader of `watchslo top` in a terminal: its word is that with which the page says what is on the screen.

    A sentence that the page has not said yet leaves the word as it was.
    """

    def __init__(self, terminal: Tmux, page: VerdictReader) -> None:
        self._terminal = terminal
        self._page = page
        self._words: dict[str, str] = {}
        self._last = NO_ANSWER, ""

    def page(self) -> tuple[str, str]:
        """Read the page, and remember its sentence without that of the self-checks, which `top` shows elsewhere."""
        word, text = self._page()
        if verdict := text.partition(f" {PROBLEM}")[0]:
            self._words[" ".join(verdict.split()).rstrip(".")] = word  # figures may follow
        return word, text

    def __call__(self) -> tuple[str, str]:
        screen = " ".join(self._terminal.screen.split())
        if LOST in screen:
            self._last = NO_ANSWER, ""
        else:
            shown = [(len(text), word, text) for text, word in self._words.items() if text in screen]
            self._last = max(shown)[1:] if shown else self._last
        return self._last


def of_metric(prometheus: Prometheus) -> VerdictReader:
    """Return a reader of the metric of the verdict as Prometheus has it."""

    def read() -> tuple[str, str]:
        found = prometheus.query(f"{METRIC} == 1")
        return (str(found[0]["metric"]["verdict"]) if found else NO_ANSWER), ""

    return read


def of_instance(daemon: Daemon) -> VerdictReader:
    """Return a reader of what every instance says, also without a page: `/metrics`, and its sentence in the log."""

    def read() -> tuple[str, str]:
        status, text = daemon.get("/metrics")
        word = verdict_exposed(text) if status == 200 else NO_ANSWER
        entries = daemon.log("verdict")
        return word, str(entries[-1]["text"]) if entries and entries[-1]["verdict"] == word else ""

    return read


class Readers(Background):
    """Asks readers of the verdict, a Prometheus and its Alertmanager, keeps all answers, and reports each change.

    `pending` are the names of the alerts that were ever pending.
    """

    def __init__(
        self,
        verdicts: Mapping[str, VerdictReader],
        prometheus: Prometheus,
        manager: Alertmanager,
        report: Report,
        every: float = READ_SECONDS,
    ) -> None:
        super().__init__()
        self._verdicts = verdicts
        self._prometheus = prometheus
        self._manager = manager
        self._report = report
        self._every = every
        self._said: dict[str, list[Statement]] = {name: [] for name in verdicts}
        self._alerts: list[AlertsStatement] = []
        self.pending: set[str] = set()

    def record(self) -> Record:
        """Return everything that was said so far."""
        return Record({name: tuple(said) for name, said in self._said.items()}, tuple(self._alerts))

    def word(self, reader: str) -> str:
        """Return the last verdict of a reader."""
        said = self._said[reader]
        return said[-1].word if said else NO_ANSWER

    @property
    def firing(self) -> frozenset[str]:
        """The names of the alerts that fired at the last look."""
        return frozenset(alert.name for alert in self._alerts[-1].firing) if self._alerts else frozenset()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            for name, read in self._verdicts.items():
                self._keep_verdict(name, read)
            with contextlib.suppress(OSError):
                self._keep_alerts(self._prometheus.alerts(), self._manager.alerts())

    def _keep_verdict(self, name: str, read: VerdictReader) -> None:
        word, text = NO_ANSWER, ""
        with contextlib.suppress(OSError):
            word, text = read()
        if word != self.word(name):
            self._report(f"{name}: {word}{': ' if text else ''}{text}")
        self._said[name].append(Statement(time.monotonic(), word, text))

    def _keep_alerts(self, known: Iterable[Mapping[str, Any]], managed: Iterable[Mapping[str, Any]]) -> None:
        firing = _alerts(alert["labels"] for alert in known if alert["state"] == "firing")
        active = _alerts(one["labels"] for one in managed if one["status"]["state"] == "active")
        now, *last = AlertsStatement(time.monotonic(), firing, firing & active), *self._alerts[-1:]
        if [(now.firing, now.notified)] != [(one.firing, one.notified) for one in last]:
            self._report(f"alerts: {_names(now.firing)} fire; {_names(now.notified)} notify")
        self._alerts.append(now)
        self.pending.update(alert["labels"]["alertname"] for alert in known if alert["state"] == "pending")


def _alerts(labels: Iterable[Mapping[str, str]]) -> frozenset[FiringAlert]:
    return frozenset(FiringAlert(one["alertname"], one.get("apiserver", "")) for one in labels)


def _names(alerts: frozenset[FiringAlert]) -> str:
    return ", ".join(sorted(f"{one.name} {one.apiserver}".rstrip() for one in alerts)) or "none"
