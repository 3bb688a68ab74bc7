"""`watchslo demo`: a simulated cluster in a process of its own, what goes wrong in it, and watchslo looking on."""

import asyncio
import contextlib
import itertools
import json
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from watchslo.app import logs
from watchslo.app.session import open_listener, run_on_loop, serving, stop_signals
from watchslo.app.table import Line, draw, figures, judge, plain_console, says
from watchslo.config import Config, Listen, WatchConfig
from watchslo.errors import WatchsloError
from watchslo.kube.access import Access, Connection, Credentials
from watchslo.monitor.crew import Crew
from watchslo.monitor.supervisor import Supervisor
from watchslo.serve.build import this_build
from watchslo.serve.http import url
from watchslo.sim.faults import FAULTS

ANYWHERE = Listen("127.0.0.1", 0)
QUIET_SECONDS = 8.0  # before the first fault, and between two
FAULT_SECONDS = 12.0
LOOK_SECONDS = 1.0
PLAIN_LOOK_SECONDS = 5.0  # without a terminal: as often as something is evaluated
MIN_EVENTS = 50

WORKLOAD: list[dict[str, Any]] = [
    {"resource": "pods", "rate": 60},
    {"resource": "configmaps", "rate": 10},
    {"resource": "endpointslices.discovery.k8s.io", "rate": 20, "pattern": "bursty", "burst": 10},
    {"resource": "leases.coordination.k8s.io", "rate": 15},
    {"resource": "nodes", "rate": 8},
    {"resource": "deployments.apps", "rate": 5},
]
LATENCY = [{"client": "lognormal 4ms 0.6"}, {"resource": "nodes", "client": "lognormal 12ms 0.5"}]
SCENARIO = (
    ("slow-watch", "pods"),
    ("slow-cache", "endpointslices.discovery.k8s.io"),
    ("expired", "*"),
    ("tail", "leases.coordination.k8s.io"),
    ("cut", "*"),
    ("throttled", "*"),
    ("garbage", "*"),
    ("clock-step", "*"),
)


@dataclass(slots=True)
class Scene:
    """What is wrong in the simulated cluster now, in words."""

    words: str = "nothing is wrong"


def demo(seconds: float | None, address: str | None) -> None:
    """Shows the product at work until the time is over, or until interrupted."""
    logs.set_up("console", "critical")
    with open_listener(address, ANYWHERE) as listener:
        run_on_loop(_demo(listener, seconds))


async def _demo(listener: socket.socket, seconds: float | None) -> None:
    config = Config(cluster="simulated", watch=tuple(WatchConfig(resource=plan["resource"]) for plan in WORKLOAD))
    scene, stop = Scene(), asyncio.Event()
    with stop_signals(stop):
        async with _simulation() as address:
            supervisor = Supervisor(config, _connection(address), this_build())
            async with serving(supervisor, config, listener), Crew(stop) as crew:
                crew.hire("faults", partial(_play, address, scene))
                crew.hire("table", partial(_show, supervisor, scene, url(listener)))
                if seconds is not None:
                    crew.hire("end", partial(_end_after, seconds, stop))
                await supervisor.run(stop)


async def _end_after(seconds: float, stop: asyncio.Event) -> None:
    await asyncio.sleep(seconds)
    stop.set()


@contextlib.asynccontextmanager
async def _simulation() -> AsyncIterator[str]:
    """The address of a simulated cluster that lives as long as the context, in a session of its own: Ctrl-C is ours."""
    setting = json.dumps({"workload": WORKLOAD, "latency": LATENCY})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "watchslo.sim", "--config", setting),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        announced = await process.stdout.readline()
        if not announced:
            raise WatchsloError("the simulated cluster does not start; what it says stands above")
        yield json.loads(announced)["url"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _connection(address: str) -> Connection:
    async def load() -> Credentials:
        return Credentials(Access(address), {})

    return Connection(load)


async def _play(address: str, scene: Scene) -> None:
    """One fault after the other, again and again, with quiet in between."""
    async with aiohttp.ClientSession(address) as control:
        for name, resource in itertools.cycle(SCENARIO):
            await asyncio.sleep(QUIET_SECONDS)
            fault = {"name": name, "resource": resource}
            await (await control.post("/sim/faults", json=fault)).read()
            scene.words = FAULTS[name].words if resource == "*" else f"{resource}: {FAULTS[name].words}"
            await asyncio.sleep(FAULT_SECONDS)
            await (await control.post("/sim/faults", json={**fault, "on": False})).read()
            scene.words = Scene().words


async def _show(supervisor: Supervisor, scene: Scene, page: str) -> None:
    """A table that is drawn anew every second; without a terminal, lines every five."""
    console = plain_console()
    if not console.is_terminal:
        console.print(f"The page: {page}   the metrics: {page}metrics", soft_wrap=True)
        while True:
            await asyncio.sleep(PLAIN_LOOK_SECONDS)
            _print(console, scene, judge(supervisor.snapshot(), "1m", MIN_EVENTS))
    with Live(console=console, auto_refresh=False) as live:
        while True:
            heading = Text.assemble(
                ("watchslo ", "bold"), "looks at a simulated cluster; the page: ", (page, "underline"), "\n"
            )
            happening = Text(f"\nIn the cluster now: {scene.words}.")
            table = draw(judge(supervisor.snapshot(), "1m", MIN_EVENTS))
            live.update(Group(heading, table, happening), refresh=True)
            await asyncio.sleep(LOOK_SECONDS)


def _print(console: Console, scene: Scene, lines: list[Line]) -> None:
    console.print(f"--- in the cluster now: {scene.words}", soft_wrap=True)
    for line in lines:
        events, p50, p99, bounds = figures(line)
        text = f"{line.stream.watch:32} events {events:>6}  P50 {p50:>9}  P99 {p99:>9} in {bounds:>18}  {says(line)}"
        console.print(text, soft_wrap=True)
