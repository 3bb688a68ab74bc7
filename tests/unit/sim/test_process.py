"""The simulator's processes: their output, errors and exit."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.certs import Authority
from watchslo.sim.control import SimConfig
from watchslo.sim.simulation import simulated

TIMEOUT_SECONDS = 60.0


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, Any]]:
    """Start a process, and yield it with its line of JSON."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_process_announces_its_address_and_ends_on_signal(stop: signal.Signals) -> None:
    async with started("watchslo.sim", "--seed", "5") as (process, line), aiohttp.ClientSession() as session:
        assert line["seed"] == 5
        assert line["control"] == f"{line['url']}/sim"
        async with session.get(f"{line['url']}/api/v1/pods?watch=1&resourceVersion=5"):
            process.send_signal(stop)
            assert await asyncio.wait_for(process.wait(), TIMEOUT_SECONDS) == 0


async def test_process_ends_when_its_parent_exits() -> None:
    command = f"import subprocess, sys; subprocess.Popen([{sys.executable!r}, '-m', 'watchslo.sim']); sys.stdin.read()"
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    await parent.stdout.readline()
    parent.kill()
    await parent.wait()
    assert (
        await asyncio.wait_for(parent.stdout.read(), TIMEOUT_SECONDS) == b""
    )  # the pipe ends when the last writer exits


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        ("watchslo.sim", ("--config", "{"), "--config"),
        ("watchslo.sim", ("--config", '{"faults":[{"name":"gremlins"}]}'), "slow-watch"),
        ("watchslo.sim", ("--tls-cert", "/nowhere"), "No such file"),
        ("watchslo.sim.proxy", ("--to", "nowhere"), "nowhere"),
        ("watchslo.sim.proxy", ("--to", "a:1", "--delay-to-client", "soon"), "soon"),
    ],
)
def test_process_with_invalid_arguments_prints_a_one_line_error(
    module: str, arguments: tuple[str, ...], message: str
) -> None:
    finished = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert finished.stderr.startswith("Error: ")
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr


async def test_simulated_serves_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    pair = authority.server("server")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    client = ssl.create_default_context(cafile=authority.ca)
    async with simulated(SimConfig(), seed=7, tls=server) as url, aiohttp.ClientSession() as session:
        assert url.startswith("https://")
        async with session.get(f"{url}/readyz", ssl=client) as response:
            assert await response.text() == "ok"


async def test_proxy_process_delays_responses() -> None:
    async with simulated(SimConfig(), seed=7) as url, aiohttp.ClientSession() as session:
        to = url.removeprefix("http://")
        command = ("watchslo.sim.proxy", "--to", to, "--delay-to-client", "constant 30ms")
        async with started(*command) as (process, line):
            async with session.get(f"http://{line['listen']}/readyz") as response:
                assert await response.text() == "ok"
            async with session.get(f"{line['control']}/chunks") as response:
                (chunk,) = (await response.json())["chunks"]
            assert chunk["forwarded"] - chunk["received"] >= 0.03
            os.kill(process.pid, signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), TIMEOUT_SECONDS) == 0
