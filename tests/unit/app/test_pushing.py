"""The push of metrics as a part of a command that serves."""

import asyncio
import sys
import threading
from dataclasses import dataclass, field

import pytest
from opentelemetry.sdk.metrics.export import MetricsData

from tests.unit.monitor.cluster import nowhere
from tests.unit.monitor.inside import BUILD
from tests.unit.serve import readings
from watchslo.app import pushing
from watchslo.app.session import open_listener, serving
from watchslo.config.model import Config
from watchslo.config.sections.otlp import OtlpConfig
from watchslo.config.values import Listen
from watchslo.errors import ConfigError
from watchslo.monitor.supervisor import Supervisor
from watchslo.serve.history import History
from watchslo.serve.otlp.push import PushLog
from watchslo.snapshot import Snapshot

PUSHED = Config(otlp=OtlpConfig())


@dataclass
class Sender:
    """Keeps what is sent."""

    sent: list[MetricsData] = field(default_factory=list)
    twice: threading.Event = field(default_factory=threading.Event)

    def send(self, points: MetricsData) -> None:
        self.sent.append(points)
        if len(self.sent) == 2:
            self.twice.set()

    def close(self) -> None:
        pass


async def test_newest_snapshot_is_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    sender, history = Sender(), History()
    monkeypatch.setattr(pushing, "Sender", lambda *_: sender)

    async def latest() -> Snapshot:
        return readings.SNAPSHOT

    found = pushing.pusher(
        latest, history, PUSHED.model_copy(update={"otlp": OtlpConfig.model_construct(interval=0.01)}), 9477
    )
    found.start()
    await asyncio.to_thread(sender.twice.wait)
    await found.stop()
    names = [metric.name for metric in sender.sent[0].resource_metrics[0].scope_metrics[0].metrics]
    assert "watchslo_apiserver_timespan_seconds" in names


async def test_hanging_loop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sender, failures, failed = Sender(), list[str](), threading.Event()

    def record(_: PushLog, failure: str, __: float) -> None:
        failures.append(failure)
        failed.set()

    monkeypatch.setattr(PushLog, "record", record)
    monkeypatch.setattr(pushing, "Sender", lambda *_: sender)
    monkeypatch.setattr(pushing, "TIMEOUT_SECONDS", 0.01)

    async def latest() -> Snapshot:
        await asyncio.Event().wait()
        raise AssertionError

    found = pushing.pusher(
        latest, History(), PUSHED.model_copy(update={"otlp": OtlpConfig.model_construct(interval=0.01)}), 9477
    )
    found.start()
    await asyncio.to_thread(failed.wait)
    await found.stop()
    assert failures[0].startswith("cannot push metrics: the measuring loop hangs")
    assert sender.sent == []


async def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI needs `opentelemetry` itself."""
    for module in [
        name
        for name in sys.modules
        if name.startswith(("opentelemetry.sdk", "watchslo.serve.otlp", "watchslo.app.pushing"))
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with open_listener(None, Listen("127.0.0.1", 0)) as listener:
        served = serving(Supervisor(PUSHED, nowhere(), BUILD), PUSHED, listener)
        with pytest.raises(
            ConfigError, match=r"^otlp needs the package opentelemetry\.sdk.*: pip install 'watchslo\[otlp\]', or"
        ):
            await served.__aenter__()
