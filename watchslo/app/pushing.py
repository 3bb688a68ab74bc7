"""Connects the measurement with the push of metrics; only the extra `otlp` has the packages for it."""

import asyncio
import time
from collections.abc import Callable, Coroutine

from prometheus_client import ProcessCollector

from watchslo.config.model import Config
from watchslo.config.sections.otlp import OtlpConfig
from watchslo.serve.history import History
from watchslo.serve.metrics import Detail, exposed
from watchslo.serve.otlp.failure import PushError
from watchslo.serve.otlp.points import PointReader
from watchslo.serve.otlp.push import Pusher
from watchslo.serve.otlp.sender import Sender
from watchslo.serve.snapshot_source import TIMEOUT_SECONDS
from watchslo.snapshot import Snapshot


def pusher(
    latest: Callable[[], Coroutine[None, None, Snapshot]], history: History, config: Config, port: int
) -> Pusher:
    """Return what pushes the newest snapshots that `latest` returns on the running loop; raises PushError.

    The thread of `history` reads the points, as it encodes all other answers. `port` is that of the server.
    """
    settings = config.otlp or OtlpConfig()
    loop = asyncio.get_running_loop()
    reader = PointReader(
        exposed(Detail(config.detail), config.quantiles),
        ProcessCollector(registry=None),
        port,
        exponential=settings.histograms == "exponential",
    )
    sender = Sender(settings.endpoint, settings.headers_file)

    def push() -> None:
        taken = asyncio.run_coroutine_threadsafe(latest(), loop)
        try:
            snapshot = taken.result(TIMEOUT_SECONDS)
        except TimeoutError:
            taken.cancel()
            raise PushError("cannot push metrics: the measuring loop hangs or is overloaded; see /healthz") from None
        sender.send(history.thread.submit(lambda: reader.read(history.judged(snapshot), time.time())).result())

    return Pusher(push, settings.interval, sender.close)
