"""A real Prometheus, by default Debian's: it scrapes one target each second, or follows a configuration."""

import contextlib
import json
import math
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import yaml

from tests.support.control_plane import HOST, Port
from tests.support.process import PATIENCE_SECONDS, Process, Started

START_SECONDS = 120.0
HTTP_SECONDS = PATIENCE_SECONDS
EVALUATED_TWICE = "different value but same timestamp"


def program(name: str, package: str = "prometheus") -> str:
    """Return the path of a program such as `promtool`, or the path in a variable such as `PROMTOOL_BIN`.

    Without the program the test is skipped, but in CI it fails.
    """
    variable = f"{name.upper().replace('-', '_')}_BIN"
    path = os.environ.get(variable) or shutil.which(name)
    if path is not None:
        return path
    missing = f"there is no {name} here: install Debian's package `{package}`, or let {variable} name it"
    if "CI" in os.environ:
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)


def complaints(exposition: str) -> str:
    """Return the complaints of `promtool check metrics` about an exposition."""
    command = [program("promtool"), "check", "metrics"]
    done = subprocess.run(
        command, input=exposition, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    said = (done.stdout + done.stderr).strip()
    return said if said or done.returncode == 0 else f"promtool ended with {done.returncode}"


def scraping(url: str) -> dict[str, Any]:
    """Return the configuration of a Prometheus that scrapes only this target."""
    target = {"job_name": "watchslo", "static_configs": [{"targets": [urlsplit(url).netloc]}]}
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": [target]}


class Served(Started):
    """A program like those of the Prometheus project, that serves HTTP at its own port while its context is open."""

    def __init__(self, folder: Path, name: str, *arguments: str | Path, listen: str = "--web.listen-address") -> None:
        self._port = Port()
        self.url = f"http://{HOST}:{self._port.number}"
        self.process = Process(folder, name, [*arguments, f"{listen}={HOST}:{self._port.number}"])

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.process.start()
        self.process.until(self._ready, "ready")

    def close(self) -> None:
        self.process.stop()
        self._port.release()

    def _ready(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=HTTP_SECONDS):
            return True
        return False


class QueryServer(Served):
    """A server with the HTTP API of Prometheus."""

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the vector of an instant query; fail for an invalid expression."""
        answer = self._get("/api/v1/query", query=expression)
        assert answer["status"] == "success", answer
        assert answer["data"]["resultType"] == "vector", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def value(self, expression: str) -> float | None:
        """Return the value of the only element in the answer of a query, or None."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def finite(self, expression: str) -> bool:
        """Return True if the answer of a query holds a finite number."""
        return any(math.isfinite(float(element["value"][1])) for element in self.query(expression))

    def alerts(self) -> list[dict[str, Any]]:
        """Return all pending and firing alerts, each with labels, annotations and state."""
        (found,) = self._get("/api/v1/alerts")["data"].values()  # the key is `Alerts` in Thanos
        return [*(found or ())]

    def _get(self, path: str, **query: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{urlencode(query)}", timeout=HTTP_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)


class Prometheus(QueryServer):
    """A Prometheus server with the target at a URL, or with a whole configuration; its paths begin in `folder`.

    `flags` are further ones of its command line. Without `command` it is Debian's.
    """

    def __init__(self, folder: Path, target: str | Mapping[str, Any], *flags: str, command: Path | None = None) -> None:
        folder.mkdir(exist_ok=True)
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump(scraping(target) if isinstance(target, str) else dict(target)))
        arguments = f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", "--log.level=warn"
        super().__init__(folder, "prometheus", command or program("prometheus"), *arguments, *flags)

    def warnings(self) -> list[str]:
        """Return what it logged as warnings and errors, except that a group was evaluated twice at one timestamp.

        It does that after it was held up for longer than the interval of the group (`rules/group.go` of Prometheus: it
        skips a timestamp at the tick that came late, and the next tick is then too early for a new one). The machine
        holds it up, not a rule; that no two rules record the same series is checked where they are written.
        """
        return [line for line in self.process.err.splitlines() if EVALUATED_TWICE not in line]

    def target(self) -> dict[str, Any]:
        """Return its state of the target."""
        found: list[dict[str, Any]] = self._get("/api/v1/targets")["data"]["activeTargets"]
        return found[0]
