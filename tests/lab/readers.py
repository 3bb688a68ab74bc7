"""The readers of a night, each in a thread: they keep what the page, `top --once`, the metric and the alerts say."""

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping

from tests.lab.statements import (
    NO_ANSWER,
    AlertsStatement,
    FiringAlert,
    Record,
    Statement,
    trusted,
    verdict_exposed,
    word_in_status,
    word_in_text,
)
from tests.support.alertmanager import Alertmanager
from tests.support.background import Background
from tests.support.daemon import Daemon, watchslo
from tests.support.prometheus import Prometheus

STATUS_SECONDS, METRIC_SECONDS, ALERTS_SECONDS = 1.0, 2.0, 3.0
TOP_SECONDS = 5.0  # each run takes about a second of CPU
ANSWER_SECONDS = 5.0  # a page that takes longer says nothing
TOP_TIMEOUT_SECONDS = 60.0
METRIC = "watchslo_verdict"

Report = Callable[[str], None]


class VerdictReader(Background):
    """Reads a verdict every few seconds and keeps all of them; reports each change, with the time."""

    def __init__(self, name: str, every: float, report: Report) -> None:
        super().__init__()
        self.name = name
        self._every = every
        self._report = report
        self.statements: list[Statement] = []

    @property
    def word(self) -> str:
        """The last verdict."""
        return self.statements[-1].word if self.statements else NO_ANSWER

    @abstractmethod
    def read(self) -> tuple[str, str]:
        """Return the verdict and its sentence; raise OSError without an answer."""

    def _run(self) -> None:
        while not self._over.is_set():
            word, text = NO_ANSWER, ""
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                word, text = self.read()
            if word != self.word:
                self._report(f"{self.name}: {word}{': ' if text else ''}{text}")
            self.statements.append(Statement(time.monotonic(), word, text))
            self._over.wait(self._every)


class StatusReader(VerdictReader):
    """Reads `/api/v1/status`."""

    def __init__(self, url: str, report: Report) -> None:
        super().__init__("page", STATUS_SECONDS, report)
        self._url = f"{url}/api/v1/status"

    def read(self) -> tuple[str, str]:
        try:
            with urllib.request.urlopen(self._url) as answer:
                return word_in_status(json.load(answer))
        except urllib.error.HTTPError as error:
            error.close()
            return NO_ANSWER, f"HTTP {error.code}"


class TopReader(VerdictReader):
    """Runs `watchslo top --once`, whose last line is the verdict."""

    def __init__(self, url: str, report: Report) -> None:
        super().__init__("top", TOP_SECONDS, report)
        self._url = url

    def read(self) -> tuple[str, str]:
        done = watchslo("top", "--once", self._url)
        if done.returncode:
            return NO_ANSWER, done.stderr.strip()
        text = done.stdout.strip().splitlines()[-1]
        return trusted(word_in_text(text), done.stdout), text


class MetricReader(VerdictReader):
    """Reads the metric of the verdict as Prometheus has it."""

    def __init__(self, prometheus: Prometheus, report: Report) -> None:
        super().__init__("metric", METRIC_SECONDS, report)
        self._prometheus = prometheus

    def read(self) -> tuple[str, str]:
        found = self._prometheus.query(f"{METRIC} == 1")
        return (str(found[0]["metric"]["verdict"]) if found else NO_ANSWER), ""


class InstanceReader(VerdictReader):
    """Reads what every instance says, also without a page: the metric on `/metrics`, and its sentence in the log."""

    def __init__(self, daemon: Daemon, report: Report, name: str, every: float) -> None:
        super().__init__(name, every, report)
        self._daemon = daemon

    def read(self) -> tuple[str, str]:
        status, text = self._daemon.get("/metrics")
        word = verdict_exposed(text) if status == 200 else NO_ANSWER
        entries = self._daemon.log("verdict")
        return word, str(entries[-1]["text"]) if entries and entries[-1]["verdict"] == word else ""


class AlertsReader(Background):
    """Reads the alerts of a Prometheus and its Alertmanager, and keeps all of them; reports each change."""

    def __init__(self, prometheus: Prometheus, manager: Alertmanager, report: Report, name: str = "alerts") -> None:
        super().__init__()
        self._prometheus = prometheus
        self._manager = manager
        self._report = report
        self._name = name
        self.statements: list[AlertsStatement] = []
        self.pending: set[str] = set()

    @property
    def firing(self) -> frozenset[str]:
        """The names of the alerts that fired at the last look."""
        return frozenset(alert.name for alert in self.statements[-1].firing) if self.statements else frozenset()

    def _run(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                self._look()
            self._over.wait(ALERTS_SECONDS)

    def _look(self) -> None:
        firing = _alerts(alert["labels"] for alert in self._prometheus.alerts() if alert["state"] == "firing")
        active = _alerts(one["labels"] for one in self._manager.alerts() if one["status"]["state"] == "active")
        now = AlertsStatement(time.monotonic(), firing, firing & active)
        last = self.statements[-1] if self.statements else AlertsStatement(0.0, frozenset(), frozenset())
        if (now.firing, now.notified) != (last.firing, last.notified):
            names = [
                ", ".join(sorted(f"{one.name} {one.apiserver}".rstrip() for one in some)) or "none"
                for some in (now.firing, now.notified)
            ]
            self._report(f"{self._name}: {names[0]} fire; {names[1]} notify")
        self.statements.append(now)
        self.pending.update(
            one["labels"]["alertname"] for one in self._prometheus.alerts() if one["state"] == "pending"
        )


def _alerts(labels: Iterable[Mapping[str, str]]) -> frozenset[FiringAlert]:
    return frozenset(FiringAlert(one["alertname"], one.get("apiserver", "")) for one in labels)


class VerdictReaders:
    """All readers of one daemon; their record is complete at any time."""

    def __init__(self, url: str, prometheus: Prometheus, manager: Alertmanager, report: Report) -> None:
        self.page = StatusReader(url, report)
        self.alerts = AlertsReader(prometheus, manager, report)
        self._verdicts = (self.page, TopReader(url, report), MetricReader(prometheus, report))

    def start(self, stack: contextlib.ExitStack) -> None:
        """Read until the stack is closed."""
        for reader in (*self._verdicts, self.alerts):
            stack.enter_context(reader)

    def record(self) -> Record:
        verdicts = {reader.name: tuple(reader.statements) for reader in self._verdicts}
        return Record(verdicts, tuple(self.alerts.statements))
