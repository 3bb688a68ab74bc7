"""The headroom that the daemon finds with one watch, compared with searches over all revisions before and after it.

The cache of a real apiserver keeps at least 75 s of changes (k8s.io/apiserver, storage/cacher), or all since its
start: one apiserver here has a long headroom that moves, another one a short headroom, because it started late.
While an apiserver runs, the oldest revision of a cache never goes back, however fast the machine is.
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
FULL_SECONDS = (
    150.0  # until both caches drop old changes: they start at 100 changes and double while that is under 75 s
)
YOUNG_SECONDS = 30.0  # the age of the second apiserver by then
WITHIN = 0.10
KEPT_SECONDS = 75.0  # no cache drops younger changes
ANSWER_SECONDS = 60.0
MOST_OPENS = 10
TICK_SECONDS = 1.5  # between two ticks of all apiservers
TOO_OLD = re.compile(rb"(too old resource version: \d+) \(\d+\)")


@dataclass(slots=True)
class Puts:
    """The writes to etcd: revisions in order, and when each was committed (Unix seconds)."""

    revisions: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)

    def when(self, revision: int) -> float:
        """Return when the first write at or after this revision was committed."""
        return self.at[bisect.bisect_left(self.revisions, revision)]


class Writing(Background):
    """Puts objects into etcd, as JSON, at a steady rate; `namespace` can be changed while it runs."""

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
    """A proxy before an apiserver that removes the oldest valid revision from its 410 answers."""

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
        """Forward data and shorten the messages, keeping their length."""
        with contextlib.suppress(OSError), contextlib.closing(writer):
            while data := await reader.read(1 << 16):
                writer.write(TOO_OLD.sub(lambda found: found[1].ljust(len(found[0]), b"."), data))
                await writer.drain()


@dataclass(frozen=True, slots=True)
class Busy:
    """Two apiservers, the second of which started late, steady writes, and daemons that ran from the start.

    `muted` reaches the apiservers through proxies that shorten their 410 answers, in the same order. Both measured
    from `since` on (Unix seconds). `before` holds a search of each apiserver (its index) and resource that ended
    before the first probe.
    """

    plane: ControlPlane
    writings: dict[str, Writing]
    informed: Daemon
    muted: Daemon
    mutes: list[Mute]
    since: float
    before: dict[tuple[int, str], "Found"]


@pytest.fixture(scope="module")
def busy(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    """The writes are not watched until the caches are full, so that the headroom is probed only then."""
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
        informed = stack.enter_context(
            daemon(plane, folder / "informed", [apiserver.url for apiserver in plane.apiservers])
        )
        muted = stack.enter_context(daemon(plane, folder / "muted", [mute.url for mute in mutes]))
        for each in (informed, muted):
            each.until_measuring(*RATES)
        since = time.time()
        time.sleep(max(0.0, began + FULL_SECONDS - YOUNG_SECONDS - time.monotonic()))
        young = plane.apiservers[1]
        young.process.kill()
        young.start()
        young.wait_ready()
        time.sleep(max(0.0, began + FULL_SECONDS - time.monotonic()))
        before = {
            (index, resource): search(plane, apiserver, resource)
            for index, apiserver in enumerate(plane.apiservers)
            for resource in RATES
        }
        for writing in writings.values():
            writing.namespace = "default"
        yield Busy(plane, writings, informed, muted, mutes, since, before)


def daemon(plane: ControlPlane, folder: Path, urls: list[str]) -> Daemon:
    folder.mkdir()
    watches = [{"resource": resource, "namespace": "default"} for resource in RATES]
    config = config_file(folder, watch=watches, kubernetes={"apiservers": urls}, metrics="full")
    return Daemon(folder, "--config", config, "--kubeconfig", plane.kubeconfig())


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search over all revisions, and its time (Unix seconds)."""

    oldest: int
    newest: int
    at: float


def search(plane: ControlPlane, apiserver: Apiserver, resource: str) -> Found:
    """Return the oldest revision from which a watch may begin, by bisection."""
    refused, accepted = 1, plane.etcd.revision()
    while accepted > refused + 1:
        between = (refused + accepted) // 2
        if opens(plane, apiserver, resource, between):
            accepted = between
        else:
            refused = between
    return Found(accepted, plane.etcd.revision(), time.time())


def opens(plane: ControlPlane, apiserver: Apiserver, resource: str, revision: int) -> bool:
    """Return True if a watch may begin at this revision: its first line is a change, not a refusal."""
    context = ssl.create_default_context(cafile=plane.ca)
    connection = http.client.HTTPSConnection(urlsplit(apiserver.url).netloc, context=context, timeout=ANSWER_SECONDS)
    query = f"watch=1&resourceVersion={revision}&timeoutSeconds={ANSWER_SECONDS:.0f}"
    path = (
        f"/api/v1/{resource}?{query}&fieldSelector=metadata.name%3Dbusy-0"  # this object changes at least once a second
    )
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Authorization": f"Bearer {plane.token}"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        first = answer.readline()
        assert first, "no line arrived"
        return b'"code":410' not in first


def histories(daemon: Daemon) -> dict[tuple[str, str], Any]:
    """Return the headroom that the daemon reports, by apiserver and resource."""
    return {
        (stream["apiserver"], stream["resource"]): stream["history"]
        for stream in daemon.status()["streams"]
        if stream["history"] is not None
    }


def compare(busy: Busy, daemon: Daemon, urls: list[str]) -> int:
    """Compare each headroom that the daemon finds with an immediate search; return the number of comparisons.

    The daemon knows the apiservers by these URLs.
    """
    indexes = {urlsplit(url).netloc: index for index, url in enumerate(urls)}
    places = [(name, resource) for name in indexes for resource in RATES]
    compared: dict[tuple[str, str], Any] = {}

    def all_compared() -> bool:
        for (name, resource), history in histories(daemon).items():
            if (name, resource) not in compared:
                compared[name, resource] = history
                index = indexes[name]
                print(name, end=" ")
                hold(busy, index, resource, history, search(busy.plane, busy.plane.apiservers[index], resource))
        return len(compared) == len(places)

    daemon.process.until(all_compared, f"histories of {places}", 0.1)
    return len(compared)


def hold(busy: Busy, index: int, resource: str, history: Any, after: Found) -> None:
    """Compare one headroom with a search that ended earlier, and with one that began later.

    How narrow the bounds are depends on ticks, which a busy machine delays: the tests of the prober have a clock for
    that.
    """
    puts, oldest, before = busy.writings[resource].puts, int(history["oldest"]), busy.before[index, resource]
    asked = datetime.fromisoformat(history["probedAt"]).timestamp()
    said = asked - puts.when(oldest)
    lower, upper = history["seconds"]["lower"], history["seconds"]["upper"]
    print(
        f"{resource}: away for {lower:.1f} to {upper} s, since {oldest} ({said:.1f} s before); searches: "
        f"{before.oldest} ({asked - before.at:.1f} s earlier) and {after.oldest} ({after.at - asked:.1f} s later)"
    )
    resolution = WITHIN * (after.newest - oldest)
    assert before.oldest - resolution <= oldest <= after.oldest + resolution
    assert not history["complete"] or abs(oldest - after.oldest) <= resolution or said > KEPT_SECONDS
    assert lower <= said + TICK_SECONDS
    if upper is None:  # commits before the start of the daemon have no upper bound
        assert history["complete"] or puts.when(oldest) < busy.since
    else:
        assert history["complete"] or said - TICK_SECONDS <= upper


def opened(daemon: Daemon) -> float:
    """Return the number of watches that the daemon opened to probe the headroom."""
    return daemon.scrape().total("watchslo_api_requests_total", kind="history")


def test_headroom_is_found_with_one_watch(busy: Busy) -> None:
    compared = compare(busy, busy.informed, [apiserver.url for apiserver in busy.plane.apiservers])
    assert compared <= opened(busy.informed) <= compared + len(busy.informed.log("history_unknown"))


def test_headroom_without_a_revision_in_the_refusal_is_found_with_ten_watches(busy: Busy) -> None:
    compared = compare(busy, busy.muted, [mute.url for mute in busy.mutes])
    print(f"{opened(busy.muted):.0f} watches for {compared} histories")
    assert compared < opened(busy.muted) <= MOST_OPENS * compared
