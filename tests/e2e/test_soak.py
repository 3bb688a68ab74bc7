"""Random faults for minutes: each lost event is reported, nothing leaks, and the log has no unexpected entry.

SOAK_MINUTES is the duration; `make soak MINUTES=20` runs a long one. The seed is printed, and SOAK_SEED repeats it.
In CI the seed is constant, so each build meets the same faults.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.faults import rows_alone, rows_linked
from tests.e2e.faults.daemon import Observed
from tests.e2e.faults.harness import until_settled
from tests.e2e.faults.notes import judge
from tests.e2e.faults.row import Row, Scene
from tests.e2e.faults.scribe import Scribe
from tests.e2e.faults.stages import WRITTEN, Alone
from tests.support.assets import Assets
from tests.support.daemon import Proxy

MINUTES = float(os.environ.get("SOAK_MINUTES", "2"))
SEED_OF_CI = 1140  # its first ten faults are all different
CHANCE = SEED_OF_CI if "CI" in os.environ and "SOAK_MINUTES" not in os.environ else Random().getrandbits(32)
SEED = int(os.environ.get("SOAK_SEED") or CHANCE)
WATCHES: tuple[dict[str, Any], ...] = (
    {"resource": "configmaps", "namespace": "default"},
    {"resource": "secrets", "namespace": "default", "list": "parallel", "inventory": True},
    {"resource": "events", "namespace": "default"},
    {"resource": "serviceaccounts", "namespace": "default", "list": "stream"},
)
FAULTS = (
    rows_alone.apiserver_sigterm,
    rows_alone.apiserver_sigkill,
    rows_alone.etcd_sigstop,
    rows_linked.reset,
    rows_linked.fin_inside_a_chunk,
    rows_linked.black_hole_to_us,
    rows_linked.black_hole_from_us,
    rows_linked.throttled,
    rows_linked.compacted,
    rows_linked.own_loop_blocked,
    rows_linked.wall_clock_stepped,
)
EXPECTED: Mapping[str, str] = {
    "listening": "it starts",
    "ticking": "it starts",
    "stopped": "it ends",
    "watch_closed": "a link was cut, or an apiserver ended, or no longer knew a revision",
    "list_failed": "an apiserver was away, or had just started",
    "tick_failed": "the same",
    "discovery_failed": "the same",
    "relist": "an apiserver began with an empty cache, or etcd was compacted",
    "gap": "the same",
    "unseen_changes": "the same, where an inventory is kept",
    "apiserver_unresponsive": "an apiserver was away, or nothing came through a black hole",
    "apiserver_responsive": "the same",
    "verdict": "each change of the headline",
    "watch_stalled": "nothing came through a black hole, or etcd stood still",
    "stall_over": "the same",
    "recovered": "all is well again",
    "probe_failed": "an apiserver was away while its caches were read, because something was late",
    "cache_went_back": "an apiserver began with an empty cache, or etcd was compacted",
    "storage_unknown": "an apiserver was away just when it was asked for its storage",
    "apiservers_uncounted": "an apiserver was away just when it was asked how many there are",
    "list_fell_back": "a streamed list failed five times, or stayed silent",
    "history_unknown": "an apiserver was away just when it was asked how far back it remembers",
    "cause_began": "something of all this has a name",
    "cause_ended": "the same",
    "burst_began": "something was late without a known cause, so the clock ticks more often for a while",
    "burst_ended": "the same",
}
CLOSED_FOR = {"reset", "early_eof", "timeout", "refused", "unreachable", "stalled", "tls"} | {
    *("apiserver_shutdown", "forced", "slow_consumer", "expired", "throttled", "server_error", "forbidden"),
}
"""Why watches may end here; a starting apiserver refuses requests until it has read its roles."""
WARM_SECONDS = 15.0
LOOK_SECONDS = 0.5
NOTICED_SECONDS = 6.5  # watches are shown as of the last evaluation
MORE_FILES = 12  # connections of parallel requests: aiohttp reuses them in turn, so none becomes idle
MORE_TASKS = 2
MORE_BYTES = 24 << 20  # a ring of revisions and ten minutes of clock data grow in the first minutes


@pytest.fixture(scope="module")
def stage(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    with Alone(tmp_path_factory.mktemp("soak"), assets) as stage:
        yield stage


class Resources:
    """The files, tasks and memory of a daemon: the least in some idle seconds."""

    def __init__(self, daemon: Observed) -> None:
        began, files = time.monotonic(), []
        while time.monotonic() < began + WARM_SECONDS:
            files.append(len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir())))
            time.sleep(LOOK_SECONDS)
        self.files = min(files)
        self.tasks = min(count for at, count in daemon.notes().tasks if at >= began)
        self.bytes = daemon.process.resident_bytes()

    def __repr__(self) -> str:
        return f"{self.files} files, {self.tasks} tasks, {self.bytes / 2**20:.0f} MiB"


def test_random_faults_lose_nothing_and_leak_nothing(stage: Alone, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    plane = stage.plane
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(Proxy(tmp_path, "link", plane.url))
        kubeconfig = plane.kubeconfig("soak", server=link.url)
        scribes = {
            watch["resource"]: stack.enter_context(
                Scribe(stage.open_writer, *WRITTEN[watch["resource"]], f"soak-{number}")
            )
            for number, watch in enumerate(WATCHES)
        }
        full = {"level": "full"}
        daemon = stack.enter_context(Observed(tmp_path / "daemon", kubeconfig, WATCHES, guarantees=full))
        daemon.until_measuring(*daemon.watches)
        since = time.monotonic()
        before = Resources(daemon)
        scene = Scene(
            Row("soak", rows_linked.reset, frozenset()), tmp_path, daemon, scribes["configmaps"], link, plane, link
        )
        made = strike_at_random(scene, scribes)
        until = time.monotonic()
        after = Resources(daemon)
        judge_all(daemon, scribes, since, until)
        judge_guarantees(daemon)
    print(f"{len(made)} faults: {', '.join(made)}\nbefore: {before}\nafter: {after}")
    judge_log(daemon)
    assert after.files <= before.files + MORE_FILES
    assert after.tasks <= before.tasks + MORE_TASKS
    assert after.bytes <= before.bytes + MORE_BYTES


def strike_at_random(scene: Scene, scribes: Mapping[str, Scribe]) -> list[str]:
    """Cause one fault after the other until the time is over, each on watches that deliver; return their names."""
    random, made = Random(SEED), []
    over = time.monotonic() + 60.0 * MINUTES
    while time.monotonic() < over:
        fault = random.choice(FAULTS)
        print(f"{time.monotonic():.1f} {fault.__name__}", flush=True)
        made.append(fault.__name__)
        scene.begins()
        fault(scene)
        until_delivering(scene.daemon, scribes)
        time.sleep(random.uniform(0.0, 5.0))
    return made


def until_delivering(daemon: Observed, scribes: Mapping[str, Scribe]) -> None:
    """Wait until all watches are open and have what was written since the fault ended.

    A watch behind a black hole looks open until an audit finds it, and no further fault of its connection has an
    effect.
    """
    time.sleep(NOTICED_SECONDS)
    written = {watch: max(write.revision or 0 for write in scribe.answered()) for watch, scribe in scribes.items()}

    def delivering() -> bool:
        streams = daemon.streams()
        return all(
            streams[watch]["up"] and int(streams[watch]["revision"] or 0) >= newest for watch, newest in written.items()
        )

    daemon.process.until(delivering, "all watches deliver", LOOK_SECONDS)


def judge_all(daemon: Observed, scribes: Mapping[str, Scribe], since: float, until: float) -> None:
    """Assert that each written revision was seen or lies in a reported gap."""
    for watch, scribe in scribes.items():
        writes = until_settled(daemon, watch, scribe, since, until)
        judgement = judge(daemon.notes(), watch, writes, until)
        print(f"{watch}: {judgement.writes} written, {judgement.in_gaps} in gaps, {judgement.samples} samples")
        assert judgement.lost == ()
        assert judgement.wrong == ()
        assert judgement.false_alarms == 0
        assert judgement.samples > judgement.writes / 10


def judge_guarantees(daemon: Observed) -> None:
    """Assert that no guarantee was violated, although every event was read a second time."""
    for watch, stream in daemon.streams().items():
        guarantees = stream["guarantees"]
        print(f"{watch}: {guarantees['checked']}")
        assert {name: count for name, count in guarantees["violations"].items() if count} == {}
        assert guarantees["checked"]["reliable"] > 0
        assert guarantees["checked"]["filtered"] > 0
        assert guarantees["checked"].get("typed") != 0  # absent without an inventory


def judge_log(daemon: Observed) -> None:
    """Assert that each log entry and each reason for the end of a watch is expected."""
    entries = daemon.entries()
    unexplained = [entry for entry in entries if entry["event"] not in EXPECTED or entry["level"] == "error"]
    assert unexplained == []
    reasons = {entry["reason"] for entry in entries if entry["event"] == "watch_closed"}
    assert reasons <= CLOSED_FOR
