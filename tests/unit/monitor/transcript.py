"""Transcripts of the whole monitor: what happens in a cluster in memory, and what the monitor says about that, as text.

A transcript begins with `# ` and a sentence. Its second line says how many apiservers are announced, and which
resources change ten times a second from the beginning. Hosts are numbers: `pods@1` is the watch of pods at 10.0.0.1.

- `watch pods nodes(hops=true) limits.watches=4` starts the monitor with this configuration, or reloads it.
- `20 s` lets time pass, `20 s writing pods` with ten changes a second. The outcome is what changed in the state of the
  monitor since the last outcome, and what it logged.
- `look requests` returns the requests by apiserver and kind since the last `forget`, and `look ticks` the ticks by
  resource. `look connections` returns to which apiservers clients are open, and how many watches. `look namespaces`
  returns where ticks and looks at the storage were sent.
- `look watches PATH` returns a figure of each watch that is not zero; others have `apiservers`, `causes`, `domains`,
  `tickers` and `monitor` in place of `watches`. `look cluster NAME` returns an attribute
  of the cluster, and `look headline` what the page says first.
- `cluster NAME VALUE` sets an attribute of the cluster. `refuse KIND KEY REASON` makes requests fail, `allow` ends it.
  `number KEY TEXT` lets each read of a resource have this resourceVersion, or none without a text.
- `send pods` ends the watches of pods, `send pods@2 BOOKMARK 200` sends a line to the one at 10.0.0.2, and
  `send addresses reset` breaks the watch of addresses.
- `credentials for 1` lets a monitor that starts later have credentials for the address of 10.0.0.1, `credentials
  unverified` those for a server whose certificate is not verified, and `credentials plain` those without TLS.
- `delay 60` lets a monitor that starts later wait for so many seconds before its first request, and `replay` lets it
  read the past again.
- `suspend 18000` suspends the machine; with `dead`, its connections hang then. `resend pods` sends the open watches of
  pods all events since their revisions, `resend pods 300` the last of them, and `write pods 300` makes so many changes.
- `serve metrics` lets each apiserver serve a page of its metrics, which counts how often it was read, and `serve html`
  another page of `PAGES`.
- `refresh 20` lets a monitor that starts later discover, and count apiservers, every 20 s, not every 180 s. `again 120`
  lets a cache that was found be looked for after 120 s, not after an hour.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from tests.unit.monitor.cluster import GONE, RESOURCES, Cluster, because_of, line
from tests.unit.monitor.inside import Running, credentials, keep_writing, serve, unverified_tls, verified_tls
from tests.unit.monitor.scene import HOSTS, Scene, counts, grouped, pause, place, shown
from tests.unit.own_metrics.pages import histogram, started
from watchslo.config.model import Config
from watchslo.kube.apiservers import LEASES, SLICES
from watchslo.kube.credentials import CredentialSource
from watchslo.model import Resource
from watchslo.monitor.readiness import StartState
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Timeline
from watchslo.watch.failure import ENDED, Failure, Phase, Reason, unmeasurable

OF_NAMESPACES = ("tick", "detect_storage")
READS = ("tick", "probe", "list", "nudge", "probe_cache", "detect_storage")
PATHS = {"slices": SLICES, "leases": LEASES}
"""The requests for addresses of apiservers and for their leases, by the names that transcripts use."""
PAGES = {
    "nothing": b"",
    "html": b"<html>\n",
    "garbled": f"{started()}process_cpu_seconds_total x\n".encode(),
}
SETTINGS = {
    "refresh": "watchslo.monitor.supervisor.REFRESH_SECONDS",
    "again": "watchslo.watch.watch_caches.AGAIN_SECONDS",
}


class MonitorScene(Scene):
    """A cluster and a monitor that are driven by text."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        self._cluster = Cluster()
        serve(self._cluster, self._patches)
        self._run: Running | None = None
        apiservers, _, written = beginning.partition(", writing ")
        self._cluster.announce(*(_host(str(number + 1)) for number in range(int(apiservers.split()[0]))))
        self._written = [_resource(key) for key in written.split()]
        self._credentials: CredentialSource | None = None
        self._delay = self._suspended = 0.0
        self._replays = False

    async def _shut_down(self) -> None:
        if self._run is not None:
            self._run.stop.set()
            async with asyncio.timeout(1):
                await self._tasks.pop()
        await super()._shut_down()
        assert not self._cluster.is_open
        assert not self._cluster.open_watches()

    def step(self, text: str) -> str | None:
        match text.split():
            case ["watch", *words]:
                self._runner.run(self._configure(_config(words)))
            case [seconds, "s"]:
                return self._news(pause(float(seconds)))
            case [seconds, "s", "writing", *keys]:
                return self._news(keep_writing(self._cluster, *map(_resource, keys), seconds=float(seconds)))
            case ["look", *words]:
                return self._look(words)
            case ["serve", what]:
                self._cluster.metrics = (lambda _: PAGES[what]) if what in PAGES else CountedPages().page
            case ["delay", seconds]:
                self._delay = float(seconds)
            case [name, seconds] if name in SETTINGS:
                self._patches.setattr(SETTINGS[name], float(seconds))
            case ["forget"]:
                self._cluster.asked_at.clear()
                self._cluster.asked.clear()
            case words:
                self._runner.run(self._act(words))
        return None

    def _look(self, words: list[str]) -> str:
        cluster = self._cluster
        match words:
            case ["requests"]:
                said = counts({f"{kind}@{place(name)}": count for (name, kind), count in cluster.asked_at.items()})
            case ["ticks"]:
                said = counts(Counter(key for _, kind, key in cluster.asked if kind == "tick"))
            case ["connections"]:
                doors = " ".join(sorted(place(door.name) for door in cluster.doors))
                said = f"to {doors or 'nothing'}, {len(cluster.open_watches())} watches"
            case ["namespaces"]:
                asked = cluster.asked_in.items()
                said = shown({kind: counts(Counter(asked_in)) for kind, asked_in in asked if kind in OF_NAMESPACES})
            case ["given", "up"]:
                said = f"{cluster.hung_up} connections"
            case ["headline"]:
                account = Timeline().observe(self._snapshot())
                first = account.headline
                said = "\n".join(filter(None, (f"{first.level}: {first.text}", first.figures, account.trust.text)))
            case ["cluster", name]:
                said = shown(getattr(cluster, name))
            case [of, path]:
                said = "\n".join(_figures(self._snapshot(), of, path))
            case _:
                raise AssertionError(words)
        return said

    async def _configure(self, config: Config) -> None:
        if self._run is not None:
            self._run.supervisor.configure(config)
            return
        if self._written:
            self._begin(keep_writing(self._cluster, *self._written, seconds=1e6))
        known = self._credentials or credentials(verified_tls())
        self._run = Running(config, self._delay, known, replay=self._replays)
        self._begin(self._run.supervisor.run(self._run.stop))

    async def _act(self, words: list[str]) -> None:
        cluster = self._cluster
        match words:
            case ["cluster", name, *values]:
                _set(cluster, name, values)
            case ["refuse", kind, key, reason]:
                cluster.fail(Reason(reason), kind, PATHS.get(key, key))
            case ["allow"]:
                cluster.failures.clear()
            case ["number", key, *text]:
                odd = unmeasurable(text[0] if text else None, Phase.LIST)
                cluster.failures.update({(kind, key): odd for kind in READS})
            case ["credentials", "for", host]:
                self._credentials = credentials(verified_tls(), f"https://{_host(host)}:6443")
                await self._credentials.access()  # as every request does
            case ["credentials", tls]:
                self._credentials = credentials(unverified_tls() if tls == "unverified" else None)
            case ["replay"]:
                self._replays = True
            case ["announce", *hosts]:
                cluster.announce(*map(_host, hosts))
            case ["kill", host]:
                cluster.kill(_host(host))
            case _:
                self._act_on_watches(words)

    def _act_on_watches(self, words: list[str]) -> None:
        match words:
            case ["write", key, *count]:
                for _ in range(int(count[0]) if count else 1):
                    self._cluster.write(_resource(key))
            case ["send", target, *said]:
                self._send(target, _said(said))
            case ["suspend", seconds, *how]:
                self._suspend(float(seconds), are_dead=bool(how))
            case ["resend", key, *count]:
                self._resend(_resource(key), int(count[0]) if count else 0)
            case _:
                raise AssertionError(words)

    def _send(self, target: str, said: bytes | Failure) -> None:
        key, _, host = target.partition("@")
        watches = self._cluster.address_watches if key == "addresses" else self._cluster.open_watches(_resource(key))
        for watch in watches:
            if not host or place(watch.apiserver) == host:
                watch.send(said)

    def _suspend(self, seconds: float, *, are_dead: bool) -> None:
        self._suspended += seconds
        if are_dead:  # the peers have given up the connections; no packet says so
            for watch in self._cluster.open_watches():
                watch.queue = asyncio.Queue()
        self._patches.setattr("watchslo.monitor.tasks.lag.suspended_seconds", lambda: self._suspended)

    def _resend(self, resource: Resource, last: int) -> None:
        for watch in self._cluster.open_watches(resource):
            events = [
                event for of, revision, event in self._cluster.history if of == resource and revision > watch.revision
            ]
            for event in events[-last:]:
                watch.send(event)

    def _snapshot(self) -> Snapshot:
        assert self._run is not None
        return self._run.snapshot()

    def _state(self) -> dict[str, str]:
        return {} if self._run is None else _said_by(self._run.snapshot(), self._run.start())


class CountedPages:
    """The pages of the metrics of apiservers; each counts how often it was read."""

    def __init__(self) -> None:
        self._reads: Counter[str] = Counter()

    def page(self, name: str) -> bytes:
        self._reads[name] += 1
        reads = self._reads[name]
        received = f'apiserver_watch_cache_events_received_total{{group="",resource="pods"}} {7 * reads}\n'
        return (started() + received + histogram("etcd_request_duration_seconds", "", (0, *(reads,) * 3))).encode()


def _said_by(snapshot: Snapshot, start: StartState) -> dict[str, str]:
    """Return what the monitor says about each of its parts, by name."""
    said = {"monitor": " ".join(snapshot.monitor.not_ready) or "ready", "start": start.name.lower()}
    for domain in snapshot.domains:
        resets = f", {domain.resets} resets" if domain.resets else ""
        said[f"clock {domain.name}"] = f"ticks on {' and '.join(sorted(domain.ticks_on)) or 'nothing'}{resets}"
    for stream in snapshot.watches:
        up = "" if stream.up else ", down"
        said[f"{stream.watch}@{place(stream.apiserver)}"] = f"{stream.membership} of {stream.domain}{up}"
    for one in snapshot.apiservers:
        facts = {"unresponsive": one.unresponsive_for is not None, "refuses": one.refuses, "withdrawn": one.withdrawn}
        said[f"apiserver@{place(one.name)}"] = ", ".join([one.role.value, *(name for name in facts if facts[name])])
    for ticker in snapshot.domains[0].tickers if snapshot.domains else ():
        answers = "silent" if ticker.failure else "answers"
        said[f"ticker@{place(ticker.apiserver)}"] = answers if ticker.confirmed else f"{answers}, not confirmed"
    for cause in snapshot.causes:
        said[f"cause {cause.cause}@{place(cause.apiserver or 'all')}"] = cause.confidence.name.lower()
    return said


def _said(words: list[str]) -> bytes | Failure:
    match words:
        case []:
            return ENDED
        case ["410"]:
            return GONE
        case ["reset"]:
            return because_of(Reason.RESET, Phase.STREAM)
        case [type_, revision]:
            return line(type_, int(revision))
    return f"{' '.join(words)}\n".encode()


def _figures(snapshot: Snapshot, of: str, path: str) -> list[str]:
    parts: dict[str, Any] = {
        "monitor": {"monitor": snapshot.monitor},
        "domains": {one.name: one for one in snapshot.domains},
        "tickers": {f"{one.name}@{place(each.apiserver)}": each for one in snapshot.domains for each in one.tickers},
        "apiservers": {place(one.name): one for one in snapshot.apiservers},
        "causes": {f"{one.cause}@{place(one.apiserver or 'all')}": one for one in snapshot.causes},
        "watches": {f"{one.watch}@{place(one.apiserver)}": one for one in snapshot.watches},
    }
    return grouped({name: shown(figure_at(one, path)) for name, one in parts[of].items()})


def figure_at(value: Any, path: str) -> Any:
    """Return what a path of attributes, keys and numbers leads to; None if a part is missing."""
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, tuple):
            value = next(iter(value[int(part) :]), None)
        elif value is not None:
            value = getattr(value, part)
    return value


def _host(text: str) -> str:
    return f"{HOSTS}{text}" if text.isdigit() else text


def _resource(key: str) -> Resource:
    plural, _, group = key.partition(".")
    return RESOURCES.get(key) or Resource(group, "v1", plural, namespaced=True)


def _set(cluster: Cluster, name: str, values: list[str]) -> None:
    """Set an attribute of the cluster; `KEY=` without a value removes a key."""
    kept = getattr(cluster, name)
    match kept:
        case set():
            setattr(cluster, name, set(map(_host, values)))
        case list():
            setattr(cluster, name, [_resource(key) for key in values])
        case dict():
            for key, _, value in (one.partition("=") for one in values):
                kept[_host(key)] = yaml.safe_load(value)
                if not value:
                    del kept[_host(key)]
        case _:
            setattr(cluster, name, yaml.safe_load(values[0]))


def _config(words: Iterable[str]) -> Config:
    made: dict[str, Any] = {}
    for word in words:
        path, _, value = word.partition("=")
        if "(" in word or not value:
            made.setdefault("watch", []).append(_watch(word))
            continue
        *parents, name = path.split(".")
        into = made
        for parent in parents:
            into = into.setdefault(parent, {})
        into[name] = yaml.safe_load(value)
    return Config.model_validate(made)


def _watch(word: str) -> dict[str, Any]:
    """Return the entry of a watch, as of `pods(hops=true)`."""
    resource, _, options = word.removesuffix(")").partition("(")
    return {"resource": resource, **yaml.safe_load(f"{{{options.replace('=', ': ')}}}")}
