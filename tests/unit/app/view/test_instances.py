"""How instances are found and asked, and what is kept of those that do not answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from tests.conftest import GOLDEN
from tests.support.transcripts import AsyncStep, replay_async
from tests.unit.overview.instances import body
from tests.unit.serve import readings
from watchslo.app.http_endpoint import ANSWER_SECONDS, HttpAnswer
from watchslo.app.status_client import DaemonAddress, StatusClient
from watchslo.app.view.instances import AT_ONCE, MOST_INSTANCES, Instances
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.resolution import RESOLVE_SECONDS
from watchslo.overview.merge import STALE_SECONDS

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


ERRORS = {"OSError": OSError(), "UnicodeError": UnicodeError(), "TimeoutError": TimeoutError()}


class Rounds(Fleet):
    """A transcript of what happens to instances, and what is known of them after each round of questions."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__()
        self._asking = self.of(*urls) if urls else self.of(services=[SERVICE])

    async def step(self, text: str) -> str | None:
        match text.split():
            case ["ask"]:
                return await self._ask()
            case ["later", seconds]:
                self.now += float(seconds)
            case ["silent", url]:
                del self.answers[url]
            case ["other", "server", url]:
                self.answers[url] = HttpAnswer(200, b"<html>", None)
            case ["shard", number, "of", count, url, *sent]:
                dated = AT + float(sent[0]) if sent else None
                self.answers[url] = answer(int(number) - 1, int(count), sent=dated)
            case ["resolves", *addresses]:
                self.names[NAME] = ERRORS.get(" ".join(addresses), addresses)
        return None

    async def _ask(self) -> str:
        self.asked.clear()
        overview = await self._asking.ask()
        asked = [f"asked {one.url}{' as ' + one.host if one.host else ''}" for one in self.asked]
        rows = [
            f"{' / '.join(filter(None, (row.part, row.name, row.address)))}: "
            f"{row.level}, age {row.age}{'' if row.answers else ', silent'}"
            for row in overview.rows
        ]
        return "\n".join([f"{overview.level}: {overview.text}", *asked, *rows])


async def test_rounds_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    async def begin(words: str) -> AsyncStep:
        return Rounds(words.split()[1:]).step

    golden("view-rounds.txt", await replay_async((GOLDEN / "view-rounds.txt").read_text(), begin))


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
