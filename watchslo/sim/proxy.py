"""A process with a TCP proxy that injects link faults between clients and a server.

Place it in front of one or more real apiservers, or between an apiserver and its etcd:

    python -m watchslo.sim.proxy --to 127.0.0.1:6443 --delay-to-client "lognormal 20ms 0.5"

For faults inside HTTP, the proxy can speak TLS to the apiserver and plain HTTP to the client (`--ca FILE`).
An HTTP API, at the `control` address that the process prints, controls the running proxy:

    POST /proxy          {"law": "normal 500ms 100ms"}        delay law of bytes to all clients
    POST /proxy/faults   {"name": "thin-link", "value": 8000, "connections": "open"}
                         {"name": "hole-to-client", "connections": 7}   one connection, by the number in its chunks
                         {"name": "thin-link", "on": false}             see `watchslo.sim.link_faults`
    GET  /proxy/chunks   chunks that have been forwarded to clients; when each open connection got the last bytes of
                         its client
    GET  /proxy/edits    how many events were seen, and edited by each fault
"""

import ssl
import time
from pathlib import Path
from random import Random
from typing import Any

import click
import msgspec
import uvloop
from aiohttp import web

from watchslo.errors import ConfigError, WatchsloError
from watchslo.sim import process
from watchslo.sim.delay_law import parse_law
from watchslo.sim.link_faults import ConnectionSelection
from watchslo.sim.tcp_proxy import HostPort, TcpProxy


class DelaySetting(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The new delay law of bytes to all clients."""

    law: str


class LinkFaultSwitch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A fault to switch on or off. The fault has defaults for `value` and `connections`."""

    name: str
    on: bool = True
    value: float | None = None
    connections: ConnectionSelection | int | None = None


def control(proxy: TcpProxy) -> web.Application:
    """Return the control API of a proxy."""

    async def set_law(body: DelaySetting) -> Any:
        proxy.law = parse_law(body.law)
        return {"law": proxy.law.text}

    async def fault(body: LinkFaultSwitch) -> Any:
        if body.on:
            proxy.switch_on(body.name, body.value, body.connections)
        else:
            proxy.switch_off(body.name)
        return body

    async def chunks(_request: web.Request) -> web.Response:
        asked = {str(number): connection.to_server.read_at for number, connection in proxy.connections.items()}
        return process.answer({"now": time.monotonic(), "chunks": tuple(proxy.chunks), "asked": asked})

    async def edits(_request: web.Request) -> web.Response:
        return process.answer({"seen": proxy.events_seen, "edited": proxy.edits})

    application = web.Application()
    application.add_routes(
        [
            web.post("/proxy", process.posted(DelaySetting, set_law)),
            web.post("/proxy/faults", process.posted(LinkFaultSwitch, fault)),
            web.get("/proxy/chunks", chunks),
            web.get("/proxy/edits", edits),
        ]
    )
    return application


@click.command()
@click.option("--to", required=True, multiple=True, help="HOST:PORT of a server; several take turns by connection.")
@click.option("--ca", type=click.Path(path_type=Path), help="Speak TLS to the server; this PEM file has its CA.")
@click.option("--delay-to-client", default="none", show_default=True, help="Delay law, e.g. `normal 500ms 100ms`.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, help="Port to listen on; 0 chooses a free port.")
def main(to: tuple[str, ...], ca: Path | None, delay_to_client: str, host: str, port: int) -> None:
    """Forward TCP connections and inject link faults.

    The proxy runs until SIGTERM, or until its parent process ends. It prints one line of JSON when it listens:
    {"listen": "HOST:PORT", "control": "http://..."}.
    """
    try:
        addresses = [_address(text) for text in to]
        tls = _tls(ca) if ca else None
        random = Random()  # noqa: S311 - not used for cryptography
        uvloop.run(_run(TcpProxy(addresses, parse_law(delay_to_client), random, (host, port), tls)))
    except (WatchsloError, OSError) as problem:
        raise click.ClickException(str(problem)) from None


async def _run(proxy: TcpProxy) -> None:
    async with proxy:
        runner = await process.listen(control(proxy), "127.0.0.1", 0)
        host, port = proxy.address
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/proxy"
        process.announce(listen=f"{host}:{port}", control=address)
        await process.stopped()
        await runner.cleanup()


def _address(text: str) -> HostPort:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit():
        raise ConfigError(f"{text!r} is not an address. Write HOST:PORT.")
    return host, int(port)


def _tls(ca: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # CAs made by Go have no key identifiers
    return context


if __name__ == "__main__":
    main()
