"""`python -m watchslo.sim`: a simulated cluster as a process of its own."""

import secrets
import ssl
from pathlib import Path

import click
import msgspec
import uvloop

from watchslo.errors import ConfigError, WatchsloError
from watchslo.sim import process
from watchslo.sim.control import Config
from watchslo.sim.simulation import simulated


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, help="Port to listen on; the kernel chooses with 0.")
@click.option("--seed", type=int, help="Seed of all that is random; a fresh one if not given.")
@click.option("--config", default="{}", help="What to simulate, as JSON: see watchslo.sim.control.Config.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate, PEM; plain HTTP without.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key, PEM.")
def main(host: str, port: int, seed: int | None, config: str, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Simulate a cluster until SIGTERM, or until the parent process ends.

    It prints one line of JSON when it listens: {"url": ..., "control": ..., "seed": ...}.
    """
    chosen = secrets.randbits(32) if seed is None else seed
    try:
        uvloop.run(_run(_parsed(config), chosen, host, port, _tls(tls_cert, tls_key)))
    except (WatchsloError, OSError) as problem:
        raise click.ClickException(str(problem)) from None


async def _run(config: Config, seed: int, host: str, port: int, tls: ssl.SSLContext | None) -> None:
    async with simulated(config, seed, host, port, tls) as url:
        process.announce(url=url, control=f"{url}/sim", seed=seed)
        await process.stopped()


def _parsed(config: str) -> Config:
    try:
        return msgspec.json.decode(config, type=Config)
    except msgspec.MsgspecError as problem:
        raise ConfigError(f"--config: {problem}") from None


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if not certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


if __name__ == "__main__":
    main()
