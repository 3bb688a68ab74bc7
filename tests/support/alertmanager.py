"""A real Alertmanager, from Debian's package `prometheus-alertmanager`, without receivers."""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.prometheus import HTTP_SECONDS, Served, program

PACKAGE = "prometheus-alertmanager"


class Alertmanager(Served):
    """An Alertmanager with these inhibitions; its paths begin in `folder`."""

    def __init__(self, folder: Path, inhibitions: Mapping[str, Any]) -> None:
        folder.mkdir(exist_ok=True)
        config = folder / "alertmanager.yml"
        config.write_text(
            yaml.safe_dump({"route": {"receiver": "none"}, "receivers": [{"name": "none"}], **inhibitions})
        )
        arguments = f"--config.file={config}", f"--storage.path={folder / 'data'}", "--cluster.listen-address="
        super().__init__(folder, "alertmanager", program("prometheus-alertmanager", PACKAGE), *arguments)

    def post(self, alerts: Sequence[Mapping[str, str]]) -> None:
        """Post firing alerts with these labels."""
        body = json.dumps([{"labels": dict(labels)} for labels in alerts]).encode()
        request = urllib.request.Request(f"{self.url}/api/v2/alerts", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=HTTP_SECONDS):
            pass

    def alerts(self) -> list[dict[str, Any]]:
        """Return all known alerts, each with its labels and whether it is inhibited."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=HTTP_SECONDS) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found
