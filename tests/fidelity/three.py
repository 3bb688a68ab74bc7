"""Three real apiservers, one of them slow: checks that watchslo names the slow one and the slow hop.

One apiserver's link to etcd is delayed, or its watches are, or both. A proxy before it delays only the events of its
watches, like an apiserver that sends late. The proxy records when it received and forwarded each event, so the true
duration of each hop is known.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from tests.fidelity.cases import Traffic
from tests.fidelity.goals import aligned, ms
from tests.fidelity.outcome import P50
from tests.fidelity.real import announced
from tests.fidelity.writing import Writing
from tests.support.daemon import LOOK_SECONDS
from tests.support.high_availability import HighAvailability, Member
from tests.support.process import Process
from tests.support.sampled import Sampled
from tests.support.writer import Write, configmap

WATCH_PROXY = Path(__file__).with_name("watch_proxy.py")
WATCH = "configmaps"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TRAFFIC = Traffic("sixty", rate=60.0)
HOPS = ("storage_to_cache", "cache_to_client")
WINDOW, WINDOW_SECONDS = "1m", 60.0
UNSEALED_SECONDS = 7.0  # events younger than this may not be samples yet
LOOK_EVERY_SECONDS = 1.0
GOAL_SHARE, GOAL_SECONDS = 0.15, 0.03
COLUMNS = (
    "etcd → apiserver / apiserver → client",
    "events a window",
    "total P50, ms: true / estimated",
    "storage → cache: true / estimated",
    "cache → client: true / estimated",
    "by its own ticks alone",
    "the other two, total P50",
    "causes named",
)


@dataclass(frozen=True, slots=True)
class Injected:
    """Delays of one apiserver in seconds: of etcd's answers to it, and of the events that it sends."""

    storage: float
    client: float

    def __str__(self) -> str:
        return f"{1e3 * self.storage:.0f} / {1e3 * self.client:.0f} ms"


CASES = (Injected(0.3, 0.0), Injected(0.0, 0.3), Injected(0.15, 0.25))


@dataclass(frozen=True, slots=True)
class Durations:
    """Median durations in seconds, from commit to client, and of the two hops."""

    total: float
    storage_to_cache: float
    cache_to_client: float


@dataclass(frozen=True, slots=True)
class Result:
    """The report on the slow apiserver (`slow`), and the `true` durations of its events.

    `alone` is the total by its own ticks alone, `others` the totals of the other apiservers by name. `causes` are all
    causes named during the run, as (cause, apiserver). `wrong` is the number of impossible samples among the `checked`
    samples of all apiservers.
    """

    injected: Injected
    slow: str
    events: int
    true: Durations
    said: Durations
    alone: float
    others: Mapping[str, float]
    causes: frozenset[tuple[str, str | None]]
    checked: int
    wrong: int

    def missed(self) -> Iterator[str]:
        """Yield a sentence for each missed goal."""
        injected = self.injected
        expected = Durations(injected.storage + injected.client, injected.storage, injected.client)
        for name in ("total", "storage_to_cache", "cache_to_client"):
            said, truth = getattr(self.said, name), getattr(expected, name)
            if not abs(said - truth) <= max(GOAL_SHARE * truth, GOAL_SECONDS):  # also true for NaN, if not measured
                yield f"{name} is reported as {ms(said)} ms, but {ms(truth)} ms were injected"
        for name, total in self.others.items():
            if not total <= GOAL_SECONDS:
                yield f"the healthy {name} is reported as {ms(total)} ms late"
        for cause, apiserver in sorted(self.causes, key=str):
            if apiserver in self.others:
                yield f"{cause} is named for the healthy {apiserver}"
        if self.slow not in {apiserver for _, apiserver in self.causes}:
            yield "no cause names the slow apiserver"
        if self.wrong:
            yield f"{self.wrong} of {self.checked} samples are impossible"

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a row of the table."""
        pairs = ((getattr(self.true, name), getattr(self.said, name)) for name in Durations.__slots__)
        return (
            str(self.injected),
            f"{self.events:,}",
            *(f"{ms(true)} / {ms(said)}" for true, said in pairs),
            ms(self.alone),
            " and ".join(map(ms, self.others.values())),
            ", ".join(sorted(self._named())) or "none",
        )

    def _named(self) -> Iterator[str]:
        for cause, apiserver in self.causes:
            yield f"{cause} of the {'slow one' if apiserver == self.slow else apiserver or 'whole'}"


def run(lab: HighAvailability, injected: Injected, folder: Path, seconds: float, seed: int) -> Result:
    """Measure for `seconds` after the hops are measured; the first apiserver is the slow one."""
    folder.mkdir()
    notes = folder / "proxy.json"
    slow, *others = lab.members
    writing = Writing(partial(lab.writer, others[-1]), CONFIGMAPS, configmap, TRAFFIC, seed)
    config = {"kubernetes": {"apiservers": "each"}, "watch": [{"resource": WATCH}]}
    with contextlib.ExitStack() as stack:
        stack.enter_context(writing)
        stack.enter_context(slow.storage.late(f"constant {injected.storage:g}s"))
        url = stack.enter_context(sending_late(lab, slow, injected, notes, seed))
        daemon = stack.enter_context(Sampled(folder / "daemon", lab.kubeconfig(), **config))
        said = Observation(daemon, urlsplit(url).netloc)
        daemon.process.until(said.complete, "the hops are measured", LOOK_SECONDS)
        said.look(seconds)
    writes = writing.writes()
    checked, wrong = daemon.contradictions(writes)
    return Result(
        injected=injected,
        slow=said.slow,
        events=said.window(said.slow)["events"],
        true=_truth([write for write in writes if said.spans(write)], json.loads(notes.read_bytes())),
        said=said.durations(),
        alone=p50_of(said.apiserver(said.slow)["alone"]),
        others={member.name: p50_of(said.window(member.name)) for member in others},
        causes=frozenset(said.causes),
        checked=checked,
        wrong=len(wrong),
    )


def table(results: Sequence[Result]) -> str:
    """Return an aligned Markdown table of all results."""
    return aligned([COLUMNS, *(result.cells() for result in results)])


class Observation:
    """The daemon's status, read once per second."""

    def __init__(self, daemon: Sampled, slow: str) -> None:
        self.slow = slow
        self.causes: set[tuple[str, str | None]] = set()
        self._daemon = daemon
        self._status: Any = None
        self._until = 0.0

    def complete(self) -> bool:
        """Return True if the hops of the slow apiserver are measured."""
        self._status = self._daemon.status()
        return any(_is_of(stream, self.slow) and len(_hops(stream)) == len(HOPS) for stream in self._status["watches"])

    def look(self, seconds: float) -> None:
        """Read the status for `seconds`; the last one covers the last minute."""
        self._until = time.monotonic() + seconds
        while time.monotonic() < self._until:
            time.sleep(LOOK_EVERY_SECONDS)
            self._status = self._daemon.status()
            self.causes.update((cause["cause"], cause["apiserver"]) for cause in self._status["causes"])

    def spans(self, write: Write) -> bool:
        """Return True if the last minute's figures cover this write."""
        return self._until - WINDOW_SECONDS <= write.before and write.after < self._until - UNSEALED_SECONDS

    @property
    def monitor(self) -> Any:
        """What the daemon says of itself."""
        return self._status["monitor"]

    @property
    def resolved(self) -> bool:
        """Whether the P50 of the slow apiserver is a measurement."""
        return any(found["q"] == P50 and found["resolved"] for found in self.window(self.slow)["quantiles"])

    def apiserver(self, name: str) -> Any:
        (found,) = (apiserver for apiserver in self._status["apiservers"] if apiserver["name"] == name)
        return found

    def window(self, name: str) -> Any:
        """Return the last minute of an apiserver's events."""
        return _window(self._stream(name)["latency"]["windows"])

    def durations(self) -> Durations:
        """Return the reported durations of the slow apiserver's events."""
        hops = _hops(self._stream(self.slow))
        return Durations(
            p50_of(self.window(self.slow)), *(p50_of(_window(hops[hop]) if hop in hops else None) for hop in HOPS)
        )

    def _stream(self, name: str) -> Any:
        (found,) = (stream for stream in self._status["watches"] if _is_of(stream, name))
        return found


def _is_of(stream: Mapping[str, Any], name: str) -> bool:
    return bool(stream["apiserver"] == name and stream["watch"] == WATCH)


def _hops(stream: Mapping[str, Any]) -> dict[str, Any]:
    """Return the windows of the hops that have events."""
    return {hop["hop"]: hop["windows"] for hop in stream["latency"]["hops"] if hop["events"] and hop["hop"] in HOPS}


def _window(windows: Sequence[Any]) -> Any:
    return next(window for window in windows if window["name"] == WINDOW)


def p50_of(window: Mapping[str, Any] | None) -> float:
    """Return the P50 of a window, or NaN, which misses every goal, if there is none."""
    quantiles = {} if window is None else {found["q"]: found["estimate"] for found in window["quantiles"]}
    return float(quantiles.get(P50, "nan"))


def _truth(writes: Sequence[Write], notes: Any) -> Durations:
    """Return the true median durations of these writes through the slow apiserver."""
    (committed,), sent = notes["committed"].values(), notes["sent"]
    reported = dict(zip(committed["revision"], committed["at"], strict=True))
    passed = {row[0]: row[1:] for row in zip(sent["revision"], sent["came"], sent["at"], strict=True)}
    rows = [
        (came - commit, gone - came, gone - commit)
        for write in writes
        for commit in [(write.before + min(write.after, reported[write.revision])) / 2]
        for came, gone in [passed[write.revision]]
    ]
    to_cache, to_client, total = (median(column) for column in zip(*rows, strict=True))
    return Durations(total, to_cache, to_client)


@contextlib.contextmanager
def sending_late(lab: HighAvailability, slow: Member, injected: Injected, notes: Path, seed: int) -> Iterator[str]:
    """Put a delaying proxy before the slow apiserver, announce the proxy instead, and yield its URL."""
    settings = {
        "to": slow.apiserver.url,
        "ca": str(lab.plane.ca),
        "etcds": [lab.etcd.url],
        "laws": {"": f"constant {injected.client:g}s" if injected.client else "none"},
        "seed": seed,
        "notes": str(notes),
        "certificate": str(lab.plane.serving.certificate),
        "key": str(lab.plane.serving.key),
    }
    with Process(notes.parent, "watch-proxy", [sys.executable, WATCH_PROXY, json.dumps(settings)]) as process:
        url = str(announced(process)["url"])
        lab.withdraw(slow.url)
        lab.announce(url)
        try:
            yield url
        finally:
            lab.withdraw(url)
            lab.announce(slow.url)
