"""`watchslo demo`: a simulated cluster in a process of its own, what goes wrong in it, and watchslo looking on.

For what goes wrong with a link, a proxy stands before the cluster, in a process of its own too.
"""

import asyncio
import contextlib
import itertools
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from watchslo.app import logs
from watchslo.app.session import open_listener, run_on_loop, serving, stop_signals
from watchslo.app.table import draw, figures, plain_console, says
from watchslo.app.view import View, view_of
from watchslo.config import Config, Listen, ObjectiveConfig, WatchConfig
from watchslo.errors import ConfigError, WatchsloError
from watchslo.kube.access import Access, Connection, Credentials
from watchslo.latency.distribution import BLOCK_SECONDS
from watchslo.monitor.crew import Crew
from watchslo.monitor.supervisor import Supervisor
from watchslo.serve.build import this_build
from watchslo.sim.faults import FAULTS
from watchslo.sim.link_faults import LINK_FAULTS

ANYWHERE = Listen("127.0.0.1", 0)
QUIET_SECONDS = 8.0  # before the first fault, and between two
FAULT_SECONDS = 12.0
LOOK_SECONDS = 1.0
PLAIN_LOOK_SECONDS = 5.0  # without a terminal: as often as something is evaluated
FIGURES_SECONDS = 60.0 + BLOCK_SECONDS  # their window, and until the next evaluation
MIN_EVENTS = 50  # of a minute that is judged by its estimate: the demo is short, and its resources are not all busy

WORKLOAD: list[dict[str, Any]] = [
    {"resource": "pods", "rate": 60},
    {"resource": "configmaps", "rate": 10},
    {"resource": "endpointslices.discovery.k8s.io", "rate": 20, "pattern": "bursty", "burst": 10},
    {"resource": "leases.coordination.k8s.io", "rate": 15},
    {"resource": "nodes", "rate": 8},
    {"resource": "deployments.apps", "rate": 5},
]
LISTED: dict[str, dict[str, Any]] = {  # the others are tailed, as everything is by default
    "configmaps": {"list": "stream"},
    "deployments.apps": {"list": "paged", "inventory": True},
}
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


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes wrong for a while: its words for people, and what switches it on."""

    words: str
    switch: dict[str, str]


@dataclass(frozen=True, slots=True)
class Play:
    """What goes wrong, in turn: in the cluster, or with the way to it."""

    troubles: tuple[Trouble, ...]
    on_the_way: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the simulated cluster is reached, and the URL where faults are switched."""

    address: str
    faults: str


@dataclass(slots=True)
class Scene:
    """What is wrong in the simulated cluster now, in words, and when all that went before ended."""

    words: str = "nothing is wrong"
    ended: dict[str, float] = field(default_factory=dict)

    def seen_in_figures(self, now: float) -> str:
        """What is over and still told by the figures, which are of the last minute: else they would seem wrong."""
        return "; ".join(words for words, ended in self.ended.items() if now - ended < FIGURES_SECONDS)


def demo(seconds: float | None, address: str | None, fault: str | None = None) -> None:
    """Shows the product at work until the time is over, or until interrupted; if a `fault` is named, only that one.

    Raises:
        ConfigError: for a fault that is not known.
    """
    play = play_of(fault) if fault else Play(tuple(_in_cluster(name, resource) for name, resource in SCENARIO))
    logs.set_up("console", "critical")
    with open_listener(address, ANYWHERE) as listener:
        run_on_loop(_demo(listener, seconds, play))


def faults() -> str:
    """All that can go wrong, a line each."""
    groups = (("In the cluster:", FAULTS), ("On the way to it:", LINK_FAULTS))
    widest = max(len(name) for _, named in groups for name in named)
    lines = [(head, *(f"  {name:{widest}}  {fault.words}" for name, fault in named.items())) for head, named in groups]
    return "\n".join(line for group in lines for line in group)


def play_of(fault: str) -> Play:
    """The play of a single fault.

    Raises:
        ConfigError: for a fault that is not known.
    """
    if fault in FAULTS:
        return Play((_in_cluster(fault, "*"),))
    if fault in LINK_FAULTS:
        return Play((Trouble(LINK_FAULTS[fault].words, {"name": fault}),), on_the_way=True)
    raise ConfigError(
        f"--fault: {fault} is not known; there are, in the cluster, {', '.join(FAULTS)}, "
        f"and, on the way to it, {', '.join(LINK_FAULTS)}"
    )


def _in_cluster(name: str, resource: str) -> Trouble:
    words = FAULTS[name].words
    return Trouble(words if resource == "*" else f"{resource}: {words}", {"name": name, "resource": resource})


async def _demo(listener: socket.socket, seconds: float | None, play: Play) -> None:
    names: list[str] = [plan["resource"] for plan in WORKLOAD]
    watches = tuple(WatchConfig(resource=name, **LISTED.get(name, {})) for name in names)
    objective = ObjectiveConfig.model_validate({"minutes": {"minEvents": MIN_EVENTS}})
    config = Config(cluster="simulated", watch=watches, objective=objective, metrics="full")
    scene, stop = Scene(), asyncio.Event()
    with stop_signals(stop):
        async with _stage(on_the_way=play.on_the_way) as stage:
            supervisor = Supervisor(config, _connection(stage.address), this_build())
            async with serving(supervisor, config, listener) as url, Crew(stop) as crew:
                crew.hire("faults", partial(_play, stage.faults, play.troubles, scene))
                crew.hire("table", partial(_show, supervisor, scene, url))
                if seconds is not None:
                    crew.hire("end", partial(_end_after, seconds, stop))
                await supervisor.run(stop)


async def _end_after(seconds: float, stop: asyncio.Event) -> None:
    await asyncio.sleep(seconds)
    stop.set()


@contextlib.asynccontextmanager
async def _stage(*, on_the_way: bool) -> AsyncIterator[Stage]:
    """A simulated cluster that lives as long as the context, with a proxy before it if things go wrong on the way."""
    setting = json.dumps({"cluster": {"identity": True}, "workload": WORKLOAD, "latency": LATENCY})
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(_process("watchslo.sim", "--config", setting))
        if not on_the_way:
            yield Stage(cluster["url"], f"{cluster['control']}/faults")
            return
        to = cluster["url"].removeprefix("http://")
        proxy = await stack.enter_async_context(_process("watchslo.sim.proxy", "--to", to))
        yield Stage(f"http://{proxy['listen']}", f"{proxy['control']}/faults")


@contextlib.asynccontextmanager
async def _process(module: str, *arguments: str) -> AsyncIterator[dict[str, str]]:
    """What a process of the simulator announces. It has a session of its own: Ctrl-C is ours."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        announced = await process.stdout.readline()
        if not announced:
            raise WatchsloError("the simulated cluster does not start; what it says stands above")
        yield json.loads(announced)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _connection(address: str) -> Connection:
    async def load() -> Credentials:
        return Credentials(Access(address), {})

    return Connection(load)


async def _play(faults: str, troubles: Sequence[Trouble], scene: Scene) -> None:
    """One after the other, again and again, with quiet in between."""
    async with aiohttp.ClientSession() as control:
        for trouble in itertools.cycle(troubles):
            await asyncio.sleep(QUIET_SECONDS)
            await (await control.post(faults, json=trouble.switch)).read()
            scene.words = trouble.words
            scene.ended.pop(trouble.words, None)
            await asyncio.sleep(FAULT_SECONDS)
            await (await control.post(faults, json={**trouble.switch, "on": False})).read()
            scene.words = Scene().words
            scene.ended[trouble.words] = time.monotonic()


async def _show(supervisor: Supervisor, scene: Scene, page: str) -> None:
    """A table that is drawn anew every second; without a terminal, lines every five."""
    console = plain_console()
    if not console.is_terminal:
        console.print(f"The page: {page}   the metrics: {page}metrics", soft_wrap=True)
        while True:
            await asyncio.sleep(PLAIN_LOOK_SECONDS)
            _print(console, scene, view_of(supervisor.snapshot()))
    with Live(console=console, auto_refresh=False) as live:
        while True:
            heading = Text.assemble(
                ("watchslo ", "bold"), "looks at a simulated cluster; the page: ", (page, "underline"), "\n"
            )
            view, over = view_of(supervisor.snapshot()), scene.seen_in_figures(time.monotonic())
            happening = [Text(f"\nIn the cluster now: {scene.words}.")]
            happening += [Text(f"In the last minute, and so in the figures: {over}.")] if over else []
            causes = (Text(f"It says: {sentence}", "bold") for sentence in view.causes)
            live.update(Group(heading, draw(view.lines), *happening, *causes), refresh=True)
            await asyncio.sleep(LOOK_SECONDS)


def _print(console: Console, scene: Scene, view: View) -> None:
    console.print(f"--- in the cluster now: {scene.words}", soft_wrap=True)
    if over := scene.seen_in_figures(time.monotonic()):
        console.print(f"    in the last minute, and so in the figures: {over}", soft_wrap=True)
    for sentence in view.causes:
        console.print(f"    it says: {sentence}", soft_wrap=True)
    for line in view.lines:
        events, p50, p99, bounds = figures(line)
        text = f"{line.name:32} events {events:>6}  P50 {p50:>9}  P99 {p99:>9} in {bounds:>18}  {says(line)}"
        console.print(text, soft_wrap=True)
