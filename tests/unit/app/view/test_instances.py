"""How instances are found and asked, and what is kept of those that do not answer."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.unit.overview.instances import GOOD, body
from tests.unit.serve import readings
from watchslo.app.http_endpoint import ANSWER_SECONDS, HttpAnswer
from watchslo.app.status_client import DaemonAddress, StatusClient
from watchslo.app.view import instances
from watchslo.app.view.instances import AT_ONCE, MOST_INSTANCES, RESOLVE_SECONDS, Instances, resolve
from watchslo.errors import ConfigError, ConnectError
from watchslo.overview.merge import STALE_SECONDS
from watchslo.timeline.verdict import Level

AT = readings.SNAPSHOT.at_wall
NAME = "watchslo.test"
SERVICE = f"https://{NAME}:9477/behind/"


class Fleet:
    """The answers by URL, in place of HTTP and DNS; anything else does not answer."""

    def __init__(self) -> None:
        self.answers: dict[str, HttpAnswer | str] = {}
        self.names: dict[str, Sequence[str] | Exception] = {}
        self.asked: list[DaemonAddress] = []
        self.now = 100.0
        self.busy = self.busiest = 0

    async def read(self, address: DaemonAddress) -> HttpAnswer:
        self.asked.append(address)
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        answer = self.answers.get(address.url, "no answer within 5 s")
        if isinstance(answer, str):
            raise ConnectError(answer)
        return answer

    async def resolve(self, name: str, port: int) -> Sequence[str]:
        assert port == 9477
        found = self.names.get(name, OSError("no such name"))
        if isinstance(found, Exception):
            raise found
        return found

    def of(self, *urls: str, services: Sequence[str] = ()) -> Instances:
        client = cast("StatusClient", self)
        return Instances(urls, services, client, self.resolve, lambda: self.now)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def answer(*arguments: Any, sent: float | None = AT + 2.0) -> HttpAnswer:
    return HttpAnswer(200, body(*arguments), sent)


async def test_all_urls_are_asked_and_merged(fleet: Fleet) -> None:
    fleet.answers = {"http://a:1": answer(0, 2), "http://b:1": answer(1, 2)}
    overview = await fleet.of("a:1", "http://b:1/", "a:1").ask()
    assert [one.url for one in fleet.asked] == ["http://a:1", "http://b:1"]
    assert (overview.level, [row.part for row in overview.rows]) == (Level.GOOD, ["shard 1 of 2", "shard 2 of 2"])


async def test_age_is_by_the_clock_of_the_instance_and_by_ours_since(fleet: Fleet) -> None:
    fleet.answers = {"http://a:1": answer(0, 1, GOOD, sent=AT + 3.0)}
    asking = fleet.of("a:1")
    assert [row.age for row in (await asking.ask()).rows] == [3.0]
    fleet.answers = {}
    fleet.now += 40.0
    (row,) = (await asking.ask()).rows
    assert (row.age, row.answers, row.name) == (43.0, False, "watchslo-0")


@pytest.mark.parametrize("sent", [None, AT - 5.0])
async def test_age_without_a_date_begins_with_the_answer(fleet: Fleet, sent: float | None) -> None:
    fleet.answers = {"http://a:1": answer(sent=sent)}
    assert [row.age for row in (await fleet.of("a:1").ask()).rows] == [0.0]


async def test_silent_instance_is_named_by_its_last_answer_and_recovers(fleet: Fleet) -> None:
    fleet.answers = {"http://a:1": answer(0, 2), "http://b:1": answer(1, 2)}
    asking = fleet.of("a:1", "b:1")
    await asking.ask()
    del fleet.answers["http://b:1"]
    overview = await asking.ask()
    assert overview.text == "Cannot tell for shard 2 of 2 (http://b:1): no answer within 5 s."
    fleet.answers["http://b:1"] = answer(1, 2)
    assert (await asking.ask()).level is Level.GOOD


async def test_other_server_is_explained(fleet: Fleet) -> None:
    fleet.answers = {"http://a:1": HttpAnswer(200, b"<html>", None)}
    overview = await fleet.of("a:1").ask()
    assert "the answer is not from a known version of watchslo; check the URL" in overview.text


async def test_service_is_resolved_in_each_round(fleet: Fleet) -> None:
    fleet.names = {NAME: ["10.0.0.1", "fd00::1"]}
    asking = fleet.of(services=[SERVICE])
    await asking.ask()
    assert fleet.asked == [
        DaemonAddress("https://10.0.0.1:9477/behind", NAME),
        DaemonAddress("https://[fd00::1]:9477/behind", NAME),
    ]
    fleet.names, fleet.asked = {NAME: ["10.0.0.9"]}, []
    overview = await asking.ask()
    assert [row.address for row in overview.rows] == ["https://10.0.0.9:9477/behind"], "the others have left"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (OSError(), f"{NAME} does not resolve; check the name."),
        (UnicodeError(), f"{NAME} does not resolve; check the name."),
        (TimeoutError(), f"no DNS server has answered for {NAME}."),
        ([], f"{NAME} has no address."),
    ],
)
async def test_name_without_addresses_is_a_doubt(fleet: Fleet, found: Sequence[str] | Exception, why: str) -> None:
    fleet.names = {NAME: found}
    overview = await fleet.of(services=[SERVICE]).ask()
    assert (overview.level, overview.text) == (Level.UNKNOWN, f"Cannot tell for all instances: {why}")


async def test_former_addresses_are_asked_while_dns_fails(fleet: Fleet) -> None:
    fleet.names, fleet.answers = {NAME: ["10.0.0.1"]}, {"https://10.0.0.1:9477/behind": answer()}
    asking = fleet.of(services=[SERVICE])
    assert (await asking.ask()).level is Level.GOOD
    fleet.names = {}
    overview = await asking.ask()
    assert (overview.level, overview.rows[0].level) == (Level.UNKNOWN, Level.GOOD)


async def test_number_of_instances_and_of_requests_at_once_is_bounded(fleet: Fleet) -> None:
    urls = [f"http://n{number}:1" for number in range(MOST_INSTANCES + 1)]
    fleet.answers = {url: answer() for url in urls}
    overview = await fleet.of(*urls).ask()
    assert (len(overview.rows), fleet.busiest) == (MOST_INSTANCES, AT_ONCE)
    assert overview.text == f"Cannot tell for all {MOST_INSTANCES + 1} instances: only {MOST_INSTANCES} are asked."


def test_round_of_silent_instances_ends_before_figures_are_old() -> None:
    assert MOST_INSTANCES / AT_ONCE * ANSWER_SECONDS + RESOLVE_SECONDS < STALE_SECONDS


@pytest.mark.parametrize(("urls", "services"), [((), ()), (("ftp://a",), ()), ((), ("http://",))])
def test_unusable_urls_are_refused(fleet: Fleet, urls: Sequence[str], services: Sequence[str]) -> None:
    with pytest.raises(ConfigError):
        fleet.of(*urls, services=services)


async def test_resolve_returns_each_address_once_of_one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    four = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 1)) for host in ("10.0.0.2", "10.0.0.1", "10.0.0.2")]
    six: list[Any] = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fd00::1", 1, 0, 0))]
    for found, expected in ((six + four, ["10.0.0.1", "10.0.0.2"]), (six, ["fd00::1"]), ([], [])):

        async def look_up(*_: object, found: list[Any] = found, **__: object) -> list[Any]:
            return found

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up, raising=False)
        assert list(await resolve("any", 1)) == expected


async def test_slow_dns_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hang, raising=False)
    monkeypatch.setattr(instances, "RESOLVE_SECONDS", 0.01)
    with pytest.raises(TimeoutError):
        await resolve("any", 1)
