"""`watchslo run`: the daemon."""

import asyncio
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
from watchslo.config import Config, ServerConfig, TlsConfig, hash_of, load
from watchslo.errors import ConfigError
from watchslo.monitor.crew import Crew
from watchslo.monitor.supervisor import Supervisor

RELOAD_SECONDS = 2.0  # between two looks at the file, so that a pause has closed everything within five
FIXED = ("cluster", "kubernetes", "clock", "start_delay", "metrics", "server", "log")
"""What is settled at start: a change of these is said, and waits for the next start."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says; it goes before the configuration, and stays when that is reloaded."""

    kubeconfig: Path | None = None
    context: str | None = None
    listen: str | None = None
    log_format: Literal["json", "console"] | None = None
    log_level: str | None = None
    authorization: Literal["none", "kubernetes"] | None = None
    cert_dir: Path | None = None

    def server(self, told: ServerConfig) -> ServerConfig:
        """What the configuration says of the server, but for what is said here: manifests can protect any of them."""
        update: dict[str, object] = {} if self.authorization is None else {"authorization": self.authorization}
        if self.cert_dir is not None:
            files = {"certFile": str(self.cert_dir / "tls.crt"), "keyFile": str(self.cert_dir / "tls.key")}
            update["tls"] = TlsConfig.model_validate(files)
        return told.model_copy(update=update)


def run(file: Path | None, overrides: Overrides) -> None:
    """Measures until told to stop; raises WatchsloError where it cannot begin."""
    config, digest = load(file)
    logs.set_up(overrides.log_format or config.log.format, overrides.log_level or config.log.level)
    with open_listener(overrides.listen, config.server.listen) as listener:
        delay = config.start_delay * system_random()  # noqa: S311 - it hides nothing
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
            Crew(stop) as crew,
        ):
            log.info("listening", url=url)
            if file:
                crew.hire("reloads", partial(_follow, supervisor, config, file, digest))
            try:
                await supervisor.run(stop)
            except ConfigError as error:
                raise ConfigError(f"{file}: watch: {error}") from None
    log.info("stopped")


async def _follow(supervisor: Supervisor, config: Config, file: Path, digest: str) -> None:
    """Looks at the file again and again, and puts in force what has changed; a bad file is refused and said once."""
    log = structlog.get_logger()
    refused = ""
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        try:
            new_digest = await asyncio.to_thread(hash_of, file)
            if new_digest != digest:
                new, new_digest = await asyncio.to_thread(load, file)
                _put_in_force(supervisor, config, new, file)
                waiting = [to_camel(key) for key in FIXED if getattr(new, key) != getattr(config, key)]
                log.info("config_reloaded", sha256=new_digest, needs_restart=waiting)
            digest, refused = new_digest, ""
            supervisor.reload_succeeded = True
        except ConfigError as error:
            supervisor.reload_succeeded = False
            if str(error) != refused:
                refused = str(error)
                log.error("config_refused", message=refused)  # noqa: TRY400 - the sentence says it all


def _put_in_force(supervisor: Supervisor, started: Config, new: Config, file: Path) -> None:
    try:
        supervisor.configure(new.model_copy(update={key: getattr(started, key) for key in FIXED}))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
