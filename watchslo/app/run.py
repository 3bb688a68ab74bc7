"""`watchslo run`: the daemon."""

import asyncio
import contextlib
import signal
import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import random as system_random
from typing import Literal

import structlog
from pydantic.alias_generators import to_camel

from watchslo.app import logs
from watchslo.app.session import open_listener, run_on_loop, serving, stop_signals, supervise
from watchslo.config.loading import hash_of, load
from watchslo.config.model import Config
from watchslo.config.sections.server import ServerConfig, TlsConfig
from watchslo.errors import ConfigError
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor

RELOAD_SECONDS = 2.0  # between two checks of the file, so that `pause` closes all watches within five seconds
FIXED = ("cluster", "kubernetes", "clock", "start_delay", "mode", "metrics", "quantiles", "server", "otlp", "log")
"""Keys that take effect only at start: the log names those that changed, and they wait for a restart."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """Options of the command line; they override the configuration, also after a reload."""

    kubeconfig: Path | None = None
    context: str | None = None
    listen: str | None = None
    log_format: Literal["json", "console"] | None = None
    log_level: str | None = None
    authorization: Literal["none", "kubernetes"] | None = None
    cert_dir: Path | None = None

    def server(self, configured: ServerConfig) -> ServerConfig:
        """Return the server's configuration with these options, so that manifests can protect any configuration."""
        update: dict[str, object] = {} if self.authorization is None else {"authorization": self.authorization}
        if self.cert_dir is not None:
            files = {"certFile": str(self.cert_dir / "tls.crt"), "keyFile": str(self.cert_dir / "tls.key")}
            update["tls"] = TlsConfig.model_validate(files)
        return configured.model_copy(update=update)


def run(file: Path | None, overrides: Overrides) -> None:
    """Measure until SIGTERM or SIGINT; raise WatchsloError if the daemon cannot start."""
    outdated: list[str] = []
    config, digest = load(file, warn=outdated.append)
    logs.set_up(overrides.log_format or config.log.format, overrides.log_level or config.log.level)
    for sentence in outdated:
        _log_outdated(sentence)
    with open_listener(overrides.listen, config.server.listen) as listener:
        delay = config.start_delay * system_random()  # noqa: S311 - not a secret
        supervisor = supervise(config, overrides.kubeconfig, overrides.context, delay=delay)
        run_on_loop(_run(supervisor, config, file, digest, listener, overrides.server(config.server)))


async def _run(
    supervisor: Supervisor,
    config: Config,
    file: Path | None,
    digest: str,
    listener: socket.socket,
    server: ServerConfig,
) -> None:
    log = structlog.get_logger()
    stop = asyncio.Event()
    with stop_signals(stop):
        async with (
            serving(supervisor, config.model_copy(update={"server": server}), listener) as url,
            TaskSupervisor(stop) as tasks,
        ):
            log.info("listening", url=url)
            hung_up = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up.set)
            if file:
                tasks.start("reloads", partial(_follow, supervisor, config, file, digest, hung_up))
            try:
                await supervisor.run(stop)
            except ConfigError as error:
                raise ConfigError(f"{file}: watch: {error}") from None
    log.info("stopped")


async def _follow(supervisor: Supervisor, config: Config, file: Path, digest: str, hung_up: asyncio.Event) -> None:
    """Check the file periodically and apply its changes; a bad file is refused and logged once.

    When `hung_up` is set, apply it at once, even if it has not changed.
    """
    log = structlog.get_logger()
    refused = ""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELOAD_SECONDS):
                await hung_up.wait()
        if hung_up.is_set():
            hung_up.clear()
            digest = refused = ""
        try:
            new_digest = await asyncio.to_thread(hash_of, file)
            if new_digest != digest:
                new, new_digest = await asyncio.to_thread(load, file, warn=_log_outdated)
                _apply(supervisor, config, new, file)
                waiting = [to_camel(key) for key in FIXED if getattr(new, key) != getattr(config, key)]
                log.info("config_reloaded", sha256=new_digest, needs_restart=waiting)
            digest, refused = new_digest, ""
            supervisor.reload_succeeded = True
        except ConfigError as error:
            supervisor.reload_succeeded = False
            if str(error) != refused:
                refused = str(error)
                log.error("config_refused", message=refused)  # noqa: TRY400 - the message is complete


def _log_outdated(sentence: str) -> None:
    structlog.get_logger().warning("config_outdated", message=sentence)


def _apply(supervisor: Supervisor, started: Config, new: Config, file: Path) -> None:
    """Apply a new configuration, except for the keys in `FIXED`."""
    try:
        supervisor.configure(new.model_copy(update={key: getattr(started, key) for key in FIXED}))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
