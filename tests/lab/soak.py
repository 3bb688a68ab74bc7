"""Random faults for minutes: each lost event is reported, nothing leaks, and the log has no unexpected entry."""

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.lab.faults import FAULTS
from tests.lab.judges.counts import CountsJudge
from tests.lab.judges.judge import play
from tests.lab.scene import LOOK_SECONDS, Fault, Scene, Setup
from tests.lab.stage import Lane, Stage
from tests.support.notes import judge
from tests.support.observed import Observed, until_settled
from tests.support.scribe import WRITTEN, Scribe

SETUP = Setup(
    "hurt",
    (
        {"resource": "configmaps", "namespace": "default"},
        {"resource": "secrets", "namespace": "default", "list": "parallel", "inventory": True},
        {"resource": "events", "namespace": "default"},
        {"resource": "serviceaccounts", "namespace": "default", "list": "stream"},
    ),
    keys={"guarantees": {"level": "full"}},
)
NAMES = {"apiserver-ended", "restart", "etcd-stopped", "reset", "truncated", "black-hole-to-us"} | {
    *("black-hole-from-us", "throttled", "compacted", "loop-blocked", "wall-clock-stepped")
}
LANE = Lane(SETUP, tuple(fault for fault in FAULTS if fault.name in NAMES), name="soak")
EXPECTED = {"listening", "ticking", "stopped", "verdict", "recovered"} | {
    *("watch_closed", "list_failed", "tick_failed", "discovery_failed", "probe_failed"),  # an apiserver was away
    *("storage_unknown", "apiservers_uncounted", "headroom_unknown"),  # the same
    *("apiserver_unresponsive", "apiserver_responsive"),  # or nothing came through a black hole
    *("relist", "gap", "unseen_changes", "cache_went_back"),  # a cache began empty, or etcd was compacted
    *("watch_stalled", "stall_over"),  # nothing came through a black hole, or etcd stood still
    "list_fell_back",  # a streamed list failed five times, or stayed silent
    *("cause_began", "cause_ended", "burst_began", "burst_ended"),  # all this has a name, or has none for a while
}
"""Log entries that these faults explain."""
CLOSED_FOR = {"reset", "early_eof", "timeout", "refused", "unreachable", "stalled", "tls"} | {
    *(
        "apiserver_shutdown",
        "forced",
        "slow_consumer",
        "expired",
        "throttled",
        "initializing",
        "server_error",
        "forbidden",
    )
}
"""Why watches may end here; a starting apiserver refuses requests until it has read its roles."""
WARM_SECONDS = 15.0
NOTICED_SECONDS = 6.5  # watches are shown as of the last evaluation
MORE_FILES = 12  # connections of parallel requests: aiohttp reuses them in turn, so none becomes idle
MORE_TASKS = 2
MORE_BYTES = 24 << 20  # a ring of revisions and ten minutes of clock data grow in the first minutes


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


class DeliveryJudge(CountsJudge):
    """Expects after each fault that all watches are open and have what was written since the fault ended.

    A watch behind a black hole looks open until an audit finds it, and no further fault of its connection has an
    effect.
    """

    def __init__(self, scene: Scene, scribes: Mapping[str, Scribe]) -> None:
        super().__init__(scene)
        self._daemon = scene.daemon
        self._scribes = scribes

    def prepare(self, fault: Fault) -> None:
        self._expected = fault.counts or self._expected

    def finish(self) -> None:
        time.sleep(NOTICED_SECONDS)
        written = {watch: scribe.answered()[-1].revision or 0 for watch, scribe in self._scribes.items()}

        def delivering() -> bool:
            streams = self._daemon.watches_by_name()
            return all(
                streams[watch]["up"] and int(streams[watch]["revision"] or 0) >= newest
                for watch, newest in written.items()
            )

        self._daemon.process.until(delivering, "all watches deliver", LOOK_SECONDS)


def soak(stage: Stage, minutes: float, random: Random) -> None:
    """Cause one fault after the other until the time is over, each on watches that deliver; then judge everything."""
    with contextlib.ExitStack() as stack:
        scene = stage.open(stack, LANE)
        daemon = scene.daemon
        writers = {
            watch: Scribe(scene.ground.open_writer, *WRITTEN[watch], f"soak-{number}")
            for number, watch in enumerate(daemon.watches)
        }
        scribes: dict[str, Scribe] = {watch: stack.enter_context(scribe) for watch, scribe in writers.items()}
        scene.scribe = scribes[daemon.watches[0]]
        daemon.until_measuring(*daemon.watches)
        since, before = time.monotonic(), Resources(daemon)
        delivery = DeliveryJudge(scene, scribes)
        while time.monotonic() < since + 60.0 * minutes:
            fault = random.choice(LANE.faults)
            print(f"{time.monotonic() - since:.1f} {fault.name}", flush=True)
            play(scene, fault, [delivery], random.getrandbits(32))
            time.sleep(random.uniform(0.0, 5.0))
        until, after = time.monotonic(), Resources(daemon)
        judge_writes(daemon, scribes, since, until)
        judge_guarantees(daemon)
    print(f"before: {before}\nafter: {after}")
    judge_log(daemon)
    assert after.files <= before.files + MORE_FILES
    assert after.tasks <= before.tasks + MORE_TASKS
    assert after.bytes <= before.bytes + MORE_BYTES


def judge_writes(daemon: Observed, scribes: Mapping[str, Scribe], since: float, until: float) -> None:
    """Assert that each written revision was seen or lies in a reported gap."""
    for watch, scribe in scribes.items():
        writes = until_settled(daemon, watch, scribe, since, until)
        judgement = judge(daemon.notes(), watch, writes, until)
        print(f"{watch}: {judgement.writes} written, {judgement.in_gaps} in gaps, {judgement.samples} samples")
        assert judgement.lost == ()
        assert judgement.wrong == ()
        assert judgement.false_alarms == 0
        assert judgement.samples > 0  # how many depends on how fast this machine is


def judge_guarantees(daemon: Observed) -> None:
    """Assert that no guarantee was violated, although every event was read a second time."""
    for watch, stream in daemon.watches_by_name().items():
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
