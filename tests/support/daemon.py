"""watchslo's own processes, started as a user starts them: the daemon, and the simulated cluster."""

import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

from tests.support.process import Process

WATCHSLO = Path(sys.executable).with_name("watchslo")
START_SECONDS = 30.0
HTTP_SECONDS = 10.0


class Scrape:
    """What one scrape of `/metrics` gave."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = [sample for family in self.families.values() for sample in family.samples]

    def values(self, name: str, **labels: str) -> list[float]:
        """The values of all series of a sample name (`…_total`, `…_bucket`) that carry these labels."""
        wanted = labels.items()
        return [sample.value for sample in self._samples if sample.name == name and wanted <= sample.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        """The value of the one series that carries these labels."""
        found = self.values(name, **labels)
        assert len(found) == 1, f"{len(found)} series of {name} with {labels}"
        return found[0]

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series that carry these labels; 0 without any."""
        return sum(self.values(name, **labels))


class Daemon:
    """`watchslo run` as a process of its own; its address is learnt from its JSON log."""

    def __init__(self, folder: Path, *arguments: str | Path, env: Mapping[str, str] | None = None) -> None:
        own = ("--listen", "127.0.0.1:0", "--log-format", "json")
        self.process = Process(folder, "watchslo", [WATCHSLO, "run", *own, *arguments], env)

    def __enter__(self) -> Self:
        self.process.start()
        try:
            self.process.until(lambda: bool(self._listening()), START_SECONDS, "listening")
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    @property
    def url(self) -> str:
        """Where it serves, e.g. `http://127.0.0.1:41234`."""
        return str(self._listening()[-1]["url"])

    def log(self, event: str) -> list[dict[str, Any]]:
        """The log's entries of one event."""
        entries = []
        for line in self.process.err.splitlines():
            with contextlib.suppress(ValueError):  # the last line may be half written
                entries.append(json.loads(line))
        return [entry for entry in entries if entry["event"] == event]

    def get(self, path: str) -> tuple[int, str]:
        """GET a path; returns the status and the text, whatever the status."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=HTTP_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def scrape(self) -> Scrape:
        status, text = self.get("/metrics")
        assert status == 200, text
        return Scrape(text)

    def status(self) -> Any:
        """What `/api/v1/status` says."""
        status, text = self.get("/api/v1/status")
        assert status == 200, text
        return json.loads(text)

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def until(self, condition: Any, timeout: float, what: str) -> None:
        """Waits until `condition(scrape)` holds for a fresh scrape."""
        self.process.until(lambda: bool(condition(self.scrape())), timeout, what)

    def until_ready(self, timeout: float = START_SECONDS) -> None:
        self.process.until(self.ready, timeout, "ready")

    def stop(self, timeout: float = 10.0) -> int:
        """Ends it by SIGTERM and returns its exit code; SIGKILL after `timeout` seconds."""
        self.process.stop(timeout)
        code = self.process.exit_code
        assert code is not None
        return code

    def _listening(self) -> list[dict[str, Any]]:
        return self.log("listening")


class Simulator:
    """`python -m watchslo.sim` as a process of its own; `announced` is the JSON line it prints when it listens."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "watchslo.sim", "--port", "0", *arguments]
        self.process = Process(folder, "simulator", command)

    def __enter__(self) -> Self:
        self.process.start()
        try:
            self.process.until(lambda: "\n" in self.process.out, START_SECONDS, "listening")
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    @property
    def announced(self) -> dict[str, str]:
        line: dict[str, str] = json.loads(self.process.out.splitlines()[-1])
        return line

    @property
    def url(self) -> str:
        return self.announced["url"]
