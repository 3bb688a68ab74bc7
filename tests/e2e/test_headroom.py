"""How long may a client be away before it gets a 410? What one watch of the daemon's says, against a search of all.

The cache of a real apiserver keeps at least 75 s of changes (k8s.io/apiserver, storage/cacher), or all since its
start: the history of one apiserver here is long and moves on, that of another one is short, because it started late.
"""

import asyncio
import base64
import bisect
import contextlib
import http.client
import itertools
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from tests.support.assets import Assets
from tests.support.background import Background
from tests.support.control_plane import HOST, Apiserver, ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file

RATES = {"configmaps": 400.0, "secrets": 50.0}
KINDS = {"configmaps": "ConfigMap", "secrets": "Secret"}
OBJECTS = 50
FULL_SECONDS = 150.0  # until both caches drop what is old: they hold 100 changes and double while that is under 75 s
YOUNG_SECONDS = 30.0  # for which the second apiserver has run by then
PROBED_SECONDS = 240.0  # a first probe comes within half a minute; ten watches, 4 s apart, take their time, twice
WITHIN = 0.10
KEPT_SECONDS = 75.0  # what is younger no cache drops
ANSWER_SECONDS = 60.0
MOST_OPENS = 10
TICK_SECONDS = 1.5  # between two ticks of all apiservers
TOO_OLD = re.compile(rb"(too old resource version: \d+) \(\d+\)")

pytestmark = pytest.mark.timeout(600)


@dataclass(slots=True)
class Puts:
    """What was put into etcd: revisions in their order, and when each had been committed (Unix seconds)."""

    revisions: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)

    def when(self, revision: int) -> float:
        """When the first write from this revision on had been committed."""
        return self.at[bisect.bisect_left(self.revisions, revision)]


class Writing(Background):
    """Puts objects into etcd, as JSON, at a steady rate; into which namespace is told while it goes on."""

    def __init__(self, etcd: Etcd, resource: str, rate: float) -> None:
        super().__init__()
        self.namespace = "elsewhere"
        self.puts = Puts()
        self._etcd = etcd
        self._resource = resource
        self._rate = rate

    def _run(self) -> None:
        began = time.monotonic()
        with contextlib.closing(http.client.HTTPConnection(urlsplit(self._etcd.url).netloc)) as connection:
            for number in itertools.count():
                if self._over.wait(max(0.0, began + number / self._rate - time.monotonic())):
                    return
                connection.request("POST", "/v3/kv/put", self._body(number))
                answer = json.loads(connection.getresponse().read())
                self.puts.revisions.append(int(answer["header"]["revision"]))
                self.puts.at.append(time.time())

    def _body(self, number: int) -> str:
        name, namespace = f"busy-{number % OBJECTS}", self.namespace
        metadata = {"name": name, "namespace": namespace, "uid": name, "annotations": {"changed": str(number)}}
        value = json.dumps({"apiVersion": "v1", "kind": KINDS[self._resource], "metadata": metadata})
        key = f"/registry/{self._resource}/{namespace}/{name}"
        pair = {"key": key, "value": value}
        return json.dumps({part: base64.b64encode(text.encode()).decode() for part, text in pair.items()})


class Mute:
    """Stands before an apiserver, and takes out of its refusals the revision that would not have been refused."""

    def __init__(self, plane: ControlPlane, apiserver: Apiserver, name: str) -> None:
        self._to = (HOST, urlsplit(apiserver.url).port)
        self._outward = ssl.create_default_context(cafile=plane.ca)
        self._inward = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        pair = plane.authority.server(name)
        self._inward.load_cert_chain(pair.certificate, pair.key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        serving = asyncio.start_server(self._serve, HOST, 0, ssl=self._inward)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result()
        self.url = f"https://{HOST}:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            server = await asyncio.open_connection(*self._to, ssl=self._outward)
            ways = (self._pass(reader, server[1]), self._pass(server[0], writer))
            await asyncio.gather(*ways)

    @staticmethod
    async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Leaves the lengths as they are."""
        with contextlib.suppress(OSError), contextlib.closing(writer):
            while data := await reader.read(1 << 16):
                writer.write(TOO_OLD.sub(lambda found: found[1].ljust(len(found[0]), b"."), data))
                await writer.drain()


@dataclass(frozen=True, slots=True)
class Busy:
    """Two apiservers, the second of which started late, who writes there, and daemons that were there from the start.

    `muted` reaches the apiservers by ways that take out of a refusal what it says; they are in the same order. Both
    measured at the latest `since` then (Unix seconds).
    """

    plane: ControlPlane
    writings: dict[str, Writing]
    told: Daemon
    muted: Daemon
    mutes: list[Mute]
    since: float


@pytest.fixture(scope="module")
def busy(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    """What is written is not watched until the cache is full: only then is its history asked for."""
    folder = tmp_path_factory.mktemp("busy")
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd, apiservers=2))
        writings = {name: stack.enter_context(Writing(etcd, name, rate)) for name, rate in RATES.items()}
        began = time.monotonic()
        mutes = [
            stack.enter_context(Mute(plane, apiserver, f"mute-{number}"))
            for number, apiserver in enumerate(plane.apiservers)
        ]
        told = stack.enter_context(daemon(plane, folder / "told", [apiserver.url for apiserver in plane.apiservers]))
        muted = stack.enter_context(daemon(plane, folder / "muted", [mute.url for mute in mutes]))
        for each in (told, muted):
            each.until_measuring(*RATES)
        since = time.time()
        time.sleep(max(0.0, began + FULL_SECONDS - YOUNG_SECONDS - time.monotonic()))
        young = plane.apiservers[1]
        young.process.kill()
        young.start()
        young.wait_ready()
        time.sleep(max(0.0, began + FULL_SECONDS - time.monotonic()))
        for writing in writings.values():
            writing.namespace = "default"
        yield Busy(plane, writings, told, muted, mutes, since)


def daemon(plane: ControlPlane, folder: Path, urls: list[str]) -> Daemon:
    folder.mkdir()
    watches = [{"resource": resource, "namespace": "default"} for resource in RATES]
    config = config_file(folder, watch=watches, kubernetes={"apiservers": urls}, metrics="full")
    return Daemon(folder, "--config", config, "--kubeconfig", plane.kubeconfig())


@dataclass(frozen=True, slots=True)
class Found:
    """What a search of all revisions found at one moment (Unix seconds)."""

    oldest: int
    newest: int
    at: float


def search(plane: ControlPlane, apiserver: Apiserver, resource: str) -> Found:
    """The oldest revision from which a watch may begin, by watches from ever nearer ones."""
    refused, accepted = 1, plane.etcd.revision()
    while accepted > refused + 1:
        between = (refused + accepted) // 2
        if opens(plane, apiserver, resource, between):
            accepted = between
        else:
            refused = between
    return Found(accepted, plane.etcd.revision(), time.time())


def opens(plane: ControlPlane, apiserver: Apiserver, resource: str, revision: int) -> bool:
    """Whether a watch may begin from this revision: it brings a refusal, or else a change."""
    context = ssl.create_default_context(cafile=plane.ca)
    connection = http.client.HTTPSConnection(urlsplit(apiserver.url).netloc, context=context, timeout=ANSWER_SECONDS)
    query = f"watch=1&resourceVersion={revision}&timeoutSeconds={ANSWER_SECONDS:.0f}"
    path = f"/api/v1/{resource}?{query}&fieldSelector=metadata.name%3Dbusy-0"  # which changes once a second at least
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {plane.token}"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        first = answer.readline()
        assert first, "it brought nothing"
        return b'"code":410' not in first


def histories(daemon: Daemon) -> dict[tuple[str, str], Any]:
    """What the daemon says by now, by apiserver and resource."""
    return {
        (stream["apiserver"], stream["resource"]): stream["history"]
        for stream in daemon.status()["streams"]
        if stream["history"] is not None
    }


def compare(busy: Busy, daemon: Daemon, urls: list[str]) -> int:
    """Holds each history that the daemon finds against a search that begins at once; returns how many there were.

    The daemon knows the apiservers by these URLs.
    """
    apiservers = dict(zip((urlsplit(url).netloc for url in urls), busy.plane.apiservers, strict=True))
    places = [(name, resource) for name in apiservers for resource in RATES]
    compared: dict[tuple[str, str], Any] = {}

    def all_compared() -> bool:
        for place, history in histories(daemon).items():
            if place not in compared:
                compared[place] = history
                hold(busy, place, history, search(busy.plane, apiservers[place[0]], place[1]))
        return len(compared) == len(places)

    daemon.process.until(all_compared, PROBED_SECONDS, f"histories of {places}", 0.1)
    return len(compared)


def hold(busy: Busy, place: tuple[str, str], history: Any, found: Found) -> None:
    """The search ends later: until then the cache had room for more, and its oldest revision stayed, or had none.

    It may have come to its end in between: then the oldest revision stayed for a while, and moved on as time did.
    """
    puts = busy.writings[place[1]].puts
    asked = datetime.fromisoformat(history["probedAt"]).timestamp()
    told, searched = asked - puts.when(history["oldest"]), found.at - puts.when(found.oldest)
    lower, upper = history["seconds"]["lower"], history["seconds"]["upper"]
    print(
        f"{place}: away for {lower:.1f} to {upper} s, since {history['oldest']} ({told:.1f} s before); by search since "
        f"{found.oldest} ({searched:.1f} s before), {found.at - asked:.1f} s later"
    )
    same = abs(history["oldest"] - found.oldest) <= WITHIN * (found.newest - found.oldest)
    assert same or (1 - WITHIN) * told <= searched <= (1 + WITHIN) * (told + found.at - asked)
    assert not history["complete"] or same or found.at - puts.when(history["oldest"]) > KEPT_SECONDS
    assert (1 - WITHIN) * told - TICK_SECONDS <= lower <= told + TICK_SECONDS
    if upper is None:  # nothing bounds what was committed before it began to look
        assert history["complete"] or puts.when(history["oldest"]) < busy.since
    else:
        assert history["complete"] or told - TICK_SECONDS <= upper <= (1 + WITHIN) * told + TICK_SECONDS


def opened(daemon: Daemon) -> float:
    """How many watches it has opened to find that out."""
    return daemon.scrape().total("watchslo_api_requests_total", kind="history")


def test_one_watch_tells_how_long_a_client_may_be_away(busy: Busy) -> None:
    compared = compare(busy, busy.told, [apiserver.url for apiserver in busy.plane.apiservers])
    assert opened(busy.told) == compared


def test_where_a_refusal_says_little_ten_watches_tell(busy: Busy) -> None:
    compared = compare(busy, busy.muted, [mute.url for mute in busy.mutes])
    print(f"{opened(busy.muted):.0f} watches for {compared} histories")
    assert compared < opened(busy.muted) <= MOST_OPENS * compared
