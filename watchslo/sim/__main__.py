"""`python -m watchslo.sim`: a simulated cluster in its own process."""

import secrets
import ssl
from pathlib import Path

import click
import msgspec
import uvloop

from watchslo.errors import ConfigError, WatchsloError
from watchslo.sim import process
from watchslo.sim.control import SimConfig
from watchslo.sim.simulation import simulated


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, help="Port to listen on; 0 chooses a free port.")
@click.option("--seed", type=int, help="Seed of all randomness; default: a random seed.")
@click.option("--config", default="{}", help="Configuration as JSON; see watchslo.sim.control.SimConfig.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="PEM file of the certificate; default: plain HTTP.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="PEM file of the certificate's key.")
def main(host: str, port: int, seed: int | None, config: str, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Simulate a cluster until SIGTERM, or until the parent process ends.

    The process prints one line of JSON when it listens: {"url": ..., "control": ..., "seed": ...}.
    """
    chosen = secrets.randbits(32) if seed is None else seed
    try:
        uvloop.run(_run(_parsed(config), chosen, host, port, _tls(tls_cert, tls_key)))
    except (WatchsloError, OSError) as problem:
        raise click.ClickException(str(problem)) from None


async def _run(config: SimConfig, seed: int, host: str, port: int, tls: ssl.SSLContext | None) -> None:
    async with simulated(config, seed, host, port, tls) as url:
        process.announce(url=url, control=f"{url}/sim", seed=seed)
        await process.stopped()


def _parsed(config: str) -> SimConfig:
    try:
        return msgspec.json.decode(config, type=SimConfig)
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
