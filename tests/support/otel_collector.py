"""A real collector of OpenTelemetry: it receives OTLP over HTTP and writes each request as JSON."""

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

import yaml

from tests.support.control_plane import HOST, Port
from tests.support.process import Process, Started


class OtelCollector(Started):
    """A collector at `url`, whose files are in `folder`."""

    def __init__(self, folder: Path, program: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._port = Port()
        self._output = folder / "received.json"
        self.url = f"http://{HOST}:{self._port.number}"
        config = folder / "collector.yaml"
        config.write_text(yaml.safe_dump(self._configuration()))
        self.process = Process(folder, "otelcol", [program, f"--config={config}"])

    def start(self) -> None:
        self.process.start()
        self.process.until(self._listens, "listening")

    def close(self) -> None:
        self.process.stop()
        self._port.release()

    @property
    def received(self) -> list[dict[str, Any]]:
        """What was received, with a `ResourceMetrics` for each push."""
        if not self._output.exists():
            return []
        lines = self._output.read_text().splitlines(keepends=True)  # the last one may be half written
        return [json.loads(line)["resourceMetrics"][0] for line in lines if line.endswith("\n")]

    def _configuration(self) -> dict[str, Any]:
        return {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"{HOST}:{self._port.number}"}}}},
            "exporters": {"file": {"path": str(self._output), "flush_interval": "100ms"}},
            "service": {
                "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["file"]}},
                "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "warn"}},
            },
        }

    def _listens(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self._port.number), timeout=1.0):
            return True
        return False
