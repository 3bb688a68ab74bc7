"""A real Alertmanager, from Debian's package `prometheus-alertmanager`, that notifies nobody."""

import contextlib
import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from tests.support.control_plane import HOST, Port
from tests.support.process import Process
from tests.support.prometheus import HTTP_SECONDS, START_SECONDS, program

PACKAGE = "prometheus-alertmanager"


class Alertmanager:
    """An Alertmanager with these inhibitions; its paths begin in `folder`."""

    def __init__(self, folder: Path, inhibitions: Mapping[str, Any]) -> None:
        folder.mkdir(exist_ok=True)
        config = folder / "alertmanager.yml"
        config.write_text(
            yaml.safe_dump({"route": {"receiver": "none"}, "receivers": [{"name": "none"}], **inhibitions})
        )
        self._port = Port()
        self._url = f"http://{HOST}:{self._port.number}"
        command: list[str | Path] = [
            program("prometheus-alertmanager", PACKAGE),
            f"--config.file={config}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{self._port.number}",
            "--cluster.listen-address=",
        ]
        self.process = Process(folder, "alertmanager", command)

    def __enter__(self) -> Self:
        self.process.start()
        try:
            self.process.until(self._ready, START_SECONDS, "ready")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        self._port.release()

    def post(self, alerts: Sequence[Mapping[str, str]]) -> None:
        """Tells it that alerts with these labels fire."""
        body = json.dumps([{"labels": dict(labels)} for labels in alerts]).encode()
        request = urllib.request.Request(f"{self._url}/api/v2/alerts", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=HTTP_SECONDS):
            pass

    def alerts(self) -> list[dict[str, Any]]:
        """All that it knows, each with its labels and whether it is inhibited."""
        with urllib.request.urlopen(f"{self._url}/api/v2/alerts", timeout=HTTP_SECONDS) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def _ready(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self._url}/-/ready", timeout=HTTP_SECONDS):
            return True
        return False
