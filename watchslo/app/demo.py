"""`watchslo demo`: measures a simulated cluster in which faults are injected one after the other.

The cluster runs in a process of its own. For faults of the network link, a proxy in a third process precedes it.
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
from watchslo.app.table import draw, figures, plain_console, status
from watchslo.app.terminal import View, view_of
from watchslo.config.model import Config
from watchslo.config.sections.kubernetes import KubernetesConfig
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.config.sections.watch import WatchConfig
from watchslo.config.values import Listen
from watchslo.errors import ConfigError, WatchsloError
from watchslo.kube.credentials import Access, Credentials, CredentialSource
from watchslo.latency.tally import BLOCK_SECONDS
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.serve.build import this_build
from watchslo.sim.faults import FAULTS
from watchslo.sim.link_faults import LINK_FAULTS

ANYWHERE = Listen("127.0.0.1", 0)
QUIET_SECONDS = 8.0  # before each fault
FAULT_SECONDS = 12.0
LOOK_SECONDS = 1.0
FIGURES_SECONDS = 60.0 + BLOCK_SECONDS  # for which a fault affects the figures: their window, and one evaluation
NO_FIGURES = (
    f"No figures yet: watches are evaluated every {BLOCK_SECONDS:g} s, so the first ones come within "
    f"{2 * BLOCK_SECONDS:g} s after the watches have opened."
)
MIN_EVENTS = 50  # for a verdict on a minute: the demo is short, and some of its resources are quiet

WORKLOAD: list[dict[str, Any]] = [
    {"resource": "pods", "rate": 60},
    {"resource": "configmaps", "rate": 10},
    {"resource": "endpointslices.discovery.k8s.io", "rate": 20, "pattern": "bursty", "burst": 10},
    {"resource": "leases.coordination.k8s.io", "rate": 15},
    {"resource": "nodes", "rate": 8},
    {"resource": "deployments.apps", "rate": 5, "observed": 0.1},
]
LISTED: dict[str, dict[str, Any]] = {  # the others use `tail`, which is the default
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
class InjectedFault:
    """A fault: its description for people, and the request body that starts it."""

    words: str
    switch: dict[str, str]


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    """The faults that are injected in turn: all in the cluster, or all on the link to it."""

    faults: tuple[InjectedFault, ...]
    on_link: bool = False


@dataclass(frozen=True, slots=True)
class DemoCluster:
    """The address of the simulated cluster, and the URL that starts and stops faults."""

    address: str
    faults_url: str


@dataclass(slots=True)
class DemoState:
    """The description of the fault that is injected now, and the end of each earlier one in monotonic seconds."""

    words: str = "none"
    ended: dict[str, float] = field(default_factory=dict)

    def seen_in_figures(self, now: float) -> str:
        """Return the faults that are over but still affect the figures of the last minute."""
        return "; ".join(words for words, ended in self.ended.items() if now - ended < FIGURES_SECONDS)


def demo(seconds: float | None, address: str | None, fault: str | None = None) -> None:
    """Run the demo for so many seconds, or until interrupted; with `fault`, inject only that one.

    Raises:
        ConfigError: for an unknown fault.
    """
    schedule = (
        schedule_of(fault)
        if fault
        else FaultSchedule(tuple(_in_cluster(name, resource) for name, resource in SCENARIO))
    )
    logs.set_up("console", "critical")
    with open_listener(address, ANYWHERE) as listener:
        run_on_loop(_demo(listener, seconds, schedule))


def faults() -> str:
    """Return a list of all faults, one per line."""
    groups = (("In the cluster:", FAULTS), ("On the link to the cluster:", LINK_FAULTS))
    widest = max(len(name) for _, named in groups for name in named)
    lines = [(head, *(f"  {name:{widest}}  {fault.words}" for name, fault in named.items())) for head, named in groups]
    return "\n".join(line for group in lines for line in group)


def schedule_of(fault: str) -> FaultSchedule:
    """Return the schedule of a single fault.

    Raises:
        ConfigError: for an unknown fault.
    """
    if fault in FAULTS:
        return FaultSchedule((_in_cluster(fault, "*"),))
    if fault in LINK_FAULTS:
        return FaultSchedule((InjectedFault(LINK_FAULTS[fault].words, {"name": fault}),), on_link=True)
    raise ConfigError(
        f"--fault: {fault} is unknown; faults in the cluster are {', '.join(FAULTS)}; "
        f"faults on the link to it are {', '.join(LINK_FAULTS)}"
    )


def _in_cluster(name: str, resource: str) -> InjectedFault:
    words = FAULTS[name].words
    return InjectedFault(words if resource == "*" else f"{resource}: {words}", {"name": name, "resource": resource})


async def _demo(listener: socket.socket, seconds: float | None, schedule: FaultSchedule) -> None:
    names: list[str] = [plan["resource"] for plan in WORKLOAD]
    watches = tuple(WatchConfig(resource=name, **LISTED.get(name, {})) for name in names)
    objective = ObjectiveConfig.model_validate({"minutes": {"minEvents": MIN_EVENTS}})
    kubernetes = KubernetesConfig.model_validate({"apiserverMetrics": True})
    config = Config(cluster="simulated", kubernetes=kubernetes, watch=watches, objective=objective, metrics="full")
    state, stop, console = DemoState(), asyncio.Event(), plain_console()
    with stop_signals(stop):
        async with _simulated_cluster(on_link=schedule.on_link) as cluster:
            supervisor = Supervisor(config, _credentials(cluster.address), this_build())
            async with serving(supervisor, config, listener) as url, TaskSupervisor(stop) as tasks:
                if not console.is_terminal:
                    console.print(f"The page: {url}   metrics: {url}metrics", soft_wrap=True)
                tasks.start("faults", partial(_inject, cluster.faults_url, schedule.faults, state))
                tasks.start("table", partial(_show, supervisor, state, url, console, stop))
                if seconds is not None:
                    tasks.start("end", partial(_end_after, seconds, stop))
                last = await supervisor.run(stop)
            _show_last(state, url, view_of(last), console)


async def _end_after(seconds: float, stop: asyncio.Event) -> None:
    await asyncio.sleep(seconds)
    stop.set()


@contextlib.asynccontextmanager
async def _simulated_cluster(*, on_link: bool) -> AsyncIterator[DemoCluster]:
    """Run a simulated cluster while the context lasts, behind a proxy if `on_link`."""
    setting = json.dumps({"workload": WORKLOAD, "latency": LATENCY})
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(_process("watchslo.sim", "--config", setting))
        if not on_link:
            yield DemoCluster(cluster["url"], f"{cluster['control']}/faults")
            return
        to = cluster["url"].removeprefix("http://")
        proxy = await stack.enter_async_context(_process("watchslo.sim.proxy", "--to", to))
        yield DemoCluster(f"http://{proxy['listen']}", f"{proxy['control']}/faults")


@contextlib.asynccontextmanager
async def _process(module: str, *arguments: str) -> AsyncIterator[dict[str, str]]:
    """Run a process of the simulator; yields the JSON that it prints first. Ctrl-C does not reach its session."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        announced = await process.stdout.readline()
        if not announced:
            raise WatchsloError("the simulated cluster does not start; see its message above")
        yield json.loads(announced)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _credentials(address: str) -> CredentialSource:
    async def load() -> Credentials:
        return Credentials(Access(address), {})

    return CredentialSource(load)


async def _inject(url: str, faults: Sequence[InjectedFault], state: DemoState) -> None:
    """Start and stop the faults one after the other, in an endless cycle, with quiet periods between them."""
    async with aiohttp.ClientSession() as control:
        for fault in itertools.cycle(faults):
            await asyncio.sleep(QUIET_SECONDS)
            await (await control.post(url, json=fault.switch)).read()
            state.words = fault.words
            state.ended.pop(fault.words, None)
            await asyncio.sleep(FAULT_SECONDS)
            await (await control.post(url, json={**fault.switch, "on": False})).read()
            state.words = DemoState().words
            state.ended[fault.words] = time.monotonic()


async def _show(supervisor: Supervisor, state: DemoState, page: str, console: Console, stop: asyncio.Event) -> None:
    """Draw a table every second; without a terminal, print lines after each evaluation."""
    if not console.is_terminal:
        evaluated = asyncio.Event()
        supervisor.on_evaluation(lambda _: evaluated.set())
        while True:
            await evaluated.wait()
            evaluated.clear()
            if stop.is_set():
                return  # `_show_last` prints the last evaluation
            _print(console, state, view_of(await supervisor.snapshot()))
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            live.update(_picture(state, page, view_of(await supervisor.snapshot())), refresh=True)
            await asyncio.sleep(LOOK_SECONDS)


def _show_last(state: DemoState, page: str, view: View, console: Console) -> None:
    """Show the figures of the end, which has an evaluation of its own: a short demo may have had no other."""
    if console.is_terminal:
        console.print(_picture(state, page, view))
    else:
        _print(console, state, view)


def _picture(state: DemoState, page: str, view: View) -> Group:
    heading = Text.assemble(
        ("watchslo ", "bold"), "measures a simulated cluster. Its page: ", (page, "underline"), "\n"
    )
    over = state.seen_in_figures(time.monotonic())
    injected = [Text(f"\nInjected fault: {state.words}.")]
    injected += [Text(f"Over, but still in the figures of the last minute: {over}.")] if over else []
    causes = (Text(sentence, "bold") for sentence in view.causes)
    return Group(heading, draw(view.lines), *map(Text, _missing(view)), *injected, *causes)


def _missing(view: View) -> list[str]:
    """Return a sentence that says why there are no figures, if there are none."""
    return [] if any(line.events for line in view.lines) else [NO_FIGURES]


def _print(console: Console, state: DemoState, view: View) -> None:
    console.print(f"--- injected fault: {state.words}", soft_wrap=True)
    if over := state.seen_in_figures(time.monotonic()):
        console.print(f"    over, but still in the figures of the last minute: {over}", soft_wrap=True)
    for sentence in view.causes:
        console.print(f"    {sentence}", soft_wrap=True)
    for sentence in _missing(view):
        console.print(f"    {sentence}", soft_wrap=True)
        return
    for line in view.lines:
        events, p50, p99, bounds = figures(line)
        text = f"{line.name:32} events {events:>6}  P50 {p50:>9}  P99 {p99:>9} bounds {bounds:>18}  {status(line)}"
        console.print(text, soft_wrap=True)
