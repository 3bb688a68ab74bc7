"""Which of my apiservers is late? Three apiservers, of which one fails, is slow, or hides behind a load balancer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.watched import WATCHES, Watched, watching
from tests.support.assets import Assets
from tests.support.background import repeated
from tests.support.daemon import LOOK_SECONDS
from tests.support.daemonset import kubeconfig, profile_of
from tests.support.high_availability import HighAvailability, Member
from tests.support.kept_up import while_kept_up
from tests.support.observed import Observed
from tests.support.process import eventually
from tests.support.writer import Write, pod

NAMESPACE = "/api/v1/namespaces/default"
EACH = {"apiservers": "each"}
UNTOUCHED = ("relists", "expired", "gapRevisions", "stalls")
"""Counters of a watch that do not change while another apiserver fails."""
SENDING, UNKNOWN = "apiserver_sending", "unknown"
RESET = "closed network/reset"
LATE_SECONDS = 0.3
RENEW_SECONDS = 20.0  # a lease counts for a minute
SPREAD_TIMES = 4
OF_STOPPED_APISERVER = {"stall", "closed network/stalled"}  # a machine may stop it for longer than the watch allows


@pytest.fixture(scope="module")
def lab(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HighAvailability]:
    with HighAvailability(tmp_path_factory.mktemp("apiservers"), assets) as lab:
        yield lab


def roles(status: Any) -> dict[str, str]:
    return {apiserver["name"]: apiserver["role"] for apiserver in status["apiservers"]}


def peers(status: Any) -> list[int | None]:
    """Return the number of apiservers behind each watched address."""
    return [apiserver["peers"] for apiserver in status["apiservers"] if apiserver["watched"]]


def test_instance_of_the_daemonset_sees_by_its_witnesses_how_late_its_apiserver_is(
    lab: HighAvailability, tmp_path: Path
) -> None:
    """All that etcd sends to one apiserver is late; its own ticks would be as late, and show nothing."""
    late, *witnesses = lab.members
    daemon = Observed(tmp_path / "daemon", kubeconfig(lab), **profile_of(late.url))
    writes: list[Write] = []
    with late.storage.late(f"constant {LATE_SECONDS:g}s"), daemon, lab.writer(witnesses[0]) as writer:
        daemon.until_measuring("pods", "serviceaccounts")

        def named() -> bool:
            """Write on; return whether the median of the pods is that of the link, and the cause is named."""
            number = len(writes)
            writes.append(writer.create(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": f"witnessed-{number}"}}))
            writes.append(writer.create(f"{NAMESPACE}/pods", pod(f"witnessed-{number}")))
            status = daemon.status()
            (stream,) = (one for one in status["watches"] if one["watch"] == "pods")
            quantiles = [one for window in stream["latency"]["windows"] for one in window["quantiles"]]
            medians = [one["estimate"] for one in quantiles if one["q"] == 0.5]
            causes = {(cause["cause"], cause["apiserver"]) for cause in status["causes"]}
            return max(medians, default=0.0) > LATE_SECONDS / 2 and ("cache_behind", late.name) in causes

        daemon.process.until(named, "the delay is measured, and its cause is named", LOOK_SECONDS)
        daemon.until(
            lambda scrape: scrape.value("watchslo_creation_to_watch_seconds_count", watch="pods") > 0,
            "creation timestamps are measured",
        )
        status, scrape = daemon.status(), daemon.scrape()
        daemon.verify(writes, least=1)
    assert status["monitor"]["witnesses"] == {"announced": 2, "reached": 2, "why": None}
    assert roles(status) == {
        "service": "service",
        late.name: "member",
        **dict.fromkeys((each.name for each in witnesses), "witness"),
    }
    assert {stream["apiserver"] for stream in status["watches"]} == {late.name}
    assert scrape.value("watchslo_witnesses_reached") == 2
    requests = {row["kind"] for one in status["apiservers"] if one["role"] == "witness" for row in one["requests"]}
    assert requests <= {"tick", "version", "discovery"}, "nothing else is asked of a witness"


def test_load_balancer_that_moves_connections_between_apiservers_of_different_age_violates_nothing(
    lab: HighAvailability, tmp_path: Path
) -> None:
    """The load balancer is the only address that is announced, and the leases say that it hides three apiservers."""

    def announce_leases() -> None:
        """Create or renew the leases of two apiservers: those of one machine share a single lease."""
        for number in range(len(lab.members) - 1):
            lab.plane.lease(f"apiserver-more-{number}")

    for member in lab.members:
        lab.withdraw(member.url)
    lab.announce(lab.service.url)
    try:
        with (
            repeated(RENEW_SECONDS, announce_leases),
            lab.members[0].storage.late(f"constant {LATE_SECONDS:g}s"),
            watching(tmp_path, lab.kubeconfig(), lab.writer, known=[UNKNOWN], kubernetes=EACH) as watched,
        ):
            hidden = watched.daemon.until_said("apiservers_hidden")
            assert (hidden["addresses"], hidden["apiservers"]) == (1, len(lab.members))
            watched.until(lambda status: peers(status) == [len(lab.members)], "the apiservers are counted")
            while_kept_up(lambda: watched.daemon, partial(spread, lab, watched), blames_no_part_of_the_way)
            watched.verify()
            hops = [hop for stream in watched.daemon.status()["watches"] for hop in stream["latency"]["hops"]]
        assert {hop["hop"] for hop in hops if hop["events"]} <= {"creation_to_storage"}
    finally:
        lab.withdraw(lab.service.url)
        for member in lab.members:
            lab.announce(member.url)


def spread(lab: HighAvailability, watched: Watched) -> Watched:
    """Move all connections, several times."""
    watched.forget()
    for _ in range(SPREAD_TIMES):
        least = resets(watched) + len(WATCHES)
        lab.service.switch_on("reset", connections="open")
        eventually(partial(has_closed, watched, least), "watches are closed", LOOK_SECONDS)
        watched.until(lambda status: all(stream["up"] for stream in status["watches"]), "watches are open")
    watched.until_steady(UNKNOWN)
    return watched


def resets(watched: Watched) -> float:
    return watched.daemon.counted().get(RESET, 0.0)


def has_closed(watched: Watched, least: float) -> bool:
    return resets(watched) >= least


def blames_no_part_of_the_way(watched: Watched) -> None:
    assert watched.risen() <= {RESET, "time travel", *OF_STOPPED_APISERVER}
    assert {cause for cause, _ in watched.sure} <= {UNKNOWN}


@dataclass(frozen=True, slots=True)
class Incident:
    """What was observed while one apiserver failed: those that the daemon blamed, and the counters of the others."""

    hurt: Member
    blamed: frozenset[str | None]
    before: Mapping[tuple[str, str], Any]
    after: Mapping[tuple[str, str], Any]

    def judge(self) -> None:
        assert self.blamed <= {self.hurt.name, None}, "another one was blamed"
        assert self.after == self.before, "watches of another one were touched"


def counted(watched: Watched, members: Sequence[Member]) -> dict[tuple[str, str], Any]:
    """Return the counters of apiservers by apiserver and watch, without closes at the deadline."""
    names = {member.name for member in members}
    return {
        (stream["apiserver"], stream["watch"]): {name: stream[name] for name in UNTOUCHED}
        | stream["guarantees"]["violations"]
        | {"closed": [row for row in stream["closed"] if row["class"] != "deadline"]}
        for stream in watched.daemon.status()["watches"]
        if stream["apiserver"] in names
    }


def paused(lab: HighAvailability, watched: Watched) -> Incident:
    """Stop an apiserver until everything says that it, and no other one, answers nothing, also once it is withdrawn."""
    watched.until_steady()
    watched.forget()
    hurt, *others = lab.members
    before = counted(watched, others)
    with hurt.paused():
        watched.until(lambda _: (SENDING, hurt.name) in watched.named, "the cause is named")
        watched.until(lambda status: status["verdict"]["verdict"] == "unresponsive", "the headline says it")
        watched.until(partial(is_down, hurt), "its watches are down")
        status, scrape = watched.daemon.status(), watched.daemon.scrape()
        assert status["verdict"]["level"] == "bad"
        assert status["verdict"]["text"].startswith(f"{hurt.name} answers nothing since ")
        assert scrape.value("watchslo_verdict", verdict="unresponsive") == 1
        assert scrape.value("watchslo_apiserver_up", apiserver=hurt.name) == 0
        lab.withdraw(hurt.url)
        watched.until(lambda status: withdrawn(status) == {hurt.name}, "it is withdrawn")
        assert watched.look()["verdict"]["verdict"] == "unresponsive"
        assert watched.daemon.scrape().value("watchslo_apiserver_up", apiserver=hurt.name) == 0
    lab.announce(hurt.url)
    watched.until(lambda status: not withdrawn(status), "it is announced again")
    watched.until_steady()
    return Incident(hurt, frozenset(apiserver for _, apiserver in watched.sure), before, counted(watched, others))


def withdrawn(status: Any) -> set[str]:
    return {apiserver["name"] for apiserver in status["apiservers"] if apiserver["withdrawn"]}


def is_down(hurt: Member, status: Any) -> bool:
    silent = {one["name"] for one in status["apiservers"] if one["unresponsiveFor"] is not None}
    up = [stream["up"] for stream in status["watches"] if stream["apiserver"] == hurt.name]
    return silent == {hurt.name} and not any(up)


def replaced(lab: HighAvailability, watched: Watched) -> Incident:
    """Kill an apiserver until it is named, without a cause, and add another one until that is watched in its place."""
    watched.until_steady()
    watched.forget()
    hurt, *others = lab.members
    before = counted(watched, others)
    lab.kill(hurt)
    refused = f"{hurt.name} refuses connections since "
    watched.until(lambda status: status["verdict"]["text"].startswith(refused), "the headline says it")
    after, blamed = counted(watched, others), frozenset(apiserver for _, apiserver in watched.sure)
    lab.withdraw(hurt.url)
    lab.add()
    members = {member.name for member in lab.members}
    watched.until(
        lambda status: {stream["apiserver"] for stream in status["watches"] if stream["up"]} == members,
        "its replacement is watched",
    )
    watched.daemon.until(
        lambda scrape: f'apiserver="{hurt.name}"' not in scrape.text,
        "no series of the killed apiserver is left",
    )
    return Incident(hurt, blamed, before, after)


def test_failing_apiserver_is_named_and_no_other_one_and_its_replacement_is_watched(
    lab: HighAvailability, tmp_path: Path
) -> None:
    """First it stands still and comes back, then it is killed."""
    with watching(tmp_path, lab.kubeconfig(), lab.writer, kubernetes=EACH) as watched:
        for play in (paused, replaced):
            while_kept_up(lambda: watched.daemon, partial(play, lab, watched), Incident.judge)
        watched.verify()
