"""The stage of the night: three apiservers on one etcd, steady writes, watchslo, and all that read it."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tests.lab.ground import traffic
from tests.night.figures import WELL
from tests.night.monitoring import monitoring, written_rules
from tests.night.readers import Report, VerdictReaders
from tests.support.assets import Assets
from tests.support.control_plane import EVERYTHING_READABLE, HOST, Port
from tests.support.daemon import Daemon, config_file
from tests.support.high_availability import HighAvailability
from tests.support.process import eventually

FROZEN_RESOURCE = "configmaps"
"""The resource that the apiservers read from etcd through a proxy of its own."""
JOB = "watchslo"
CONFIG: dict[str, Any] = {"kubernetes": {"apiservers": "each"}, "metrics": "full"}
NICER, NICEST = 5, 19  # apiservers run at a lower priority than the daemon, as if it had its own machine
LOOK_SECONDS = 0.5


@contextlib.contextmanager
def three_apiservers(folder: Path, assets: Assets) -> Iterator[HighAvailability]:
    """Yield three apiservers on one etcd."""
    with HighAvailability(folder, assets, overrides=(f"/{FROZEN_RESOURCE}",)) as lab:
        for member in lab.members:
            nice = min(NICEST, os.getpriority(os.PRIO_PROCESS, 0) + NICER)
            os.setpriority(os.PRIO_PGRP, member.apiserver.process.pid, nice)
        yield lab


class NightStage:
    """Steady writes, the daemon, a Prometheus, an Alertmanager and the readers; all while its context is open."""

    def __init__(self, folder: Path, lab: HighAvailability, report: Report) -> None:
        self.lab = lab
        self._folder = folder
        self._report = report
        self._stack = contextlib.ExitStack()
        self._port = Port()

    def __enter__(self) -> Self:
        self._folder.mkdir()
        with contextlib.ExitStack() as stack:
            stack.enter_context(traffic(self._folder, self.lab))
            stack.callback(self._port.release)
            token = self.lab.plane.service_account(JOB, EVERYTHING_READABLE)
            kubeconfig = self.lab.kubeconfig(JOB, {"token": token})
            config = self.configure()
            url = f"http://{HOST}:{self._port.number}"
            own = ("--config", config, "--kubeconfig", kubeconfig, "--listen", f"{HOST}:{self._port.number}")
            self.daemon = stack.enter_context(Daemon(self._folder / "daemon", *own))
            rules = written_rules(config, "--format", "plain")
            prometheus, manager = monitoring(stack, self._folder / "monitoring", rules, JOB, [url])
            self.readers = VerdictReaders(url, prometheus, manager, self._report)
            self.readers.start(stack)
            eventually(lambda: self.readers.page.word in WELL, "the verdict is good", LOOK_SECONDS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def configure(self, **keys: Any) -> Path:
        """Write the configuration, with these keys changed."""
        return config_file(self._folder, **CONFIG | keys)

    def restart_daemon(self, seconds: float) -> None:
        """Stop the daemon, and start it again after some seconds."""
        self.daemon.process.stop()
        time.sleep(seconds)
        started = len(self.daemon.log("listening"))
        self.daemon.process.start()
        self.daemon.process.until(lambda: len(self.daemon.log("listening")) > started, "listening", LOOK_SECONDS)
