"""The processes of watchslo, started as a user starts them: the daemon, the simulated cluster and the slow link."""

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.process import PATIENCE_SECONDS, Process, eventually

WATCHSLO = Path(sys.executable).with_name("watchslo")
WRITE_SECONDS = 0.5
LENIENT_OBJECTIVE = {"threshold": "30s"}  # an apiserver may stand still, but not for so long
TOO_LATE = re.compile(r"no answer within \d+ s|it answers 503")
LOOK_SECONDS = 0.3  # figures change once a second; more frequent requests only cost it CPU


def config_file(folder: Path, **keys: Any) -> Path:
    """Write a configuration of these keys, replacing an existing one, and return its path."""
    path = folder / "watchslo.yaml"
    draft = path.with_suffix(".draft")
    draft.write_text(yaml.safe_dump(keys))
    return draft.replace(path)  # atomic, as for a mounted ConfigMap


def watchslo(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of watchslo to its end; the test fails if it prints a traceback."""
    done = subprocess.run(
        [WATCHSLO, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=env,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def asking(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that asks daemons, again while one of them is too late to answer."""

    def answered() -> subprocess.CompletedProcess[str] | None:
        done = watchslo(*arguments)
        return None if TOO_LATE.search(done.stdout + done.stderr) else done

    return eventually(answered, f"answered in time: {arguments[0]}", LOOK_SECONDS)


def outside(**more: str) -> dict[str, str]:
    """Return an environment that names no cluster, plus the given variables."""
    named = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    return {key: value for key, value in os.environ.items() if key not in named} | more


class NoSeriesError(AssertionError):
    """A scrape has no series of a name with some labels, as before the first event."""


class Scrape:
    """The result of one scrape of `/metrics`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = [sample for family in self.families.values() for sample in family.samples]

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of all series of a sample name (`…_total`, `…_bucket`) with these labels."""
        wanted = labels.items()
        return [sample.value for sample in self._samples if sample.name == name and wanted <= sample.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the only series with these labels; raise `NoSeriesError` without one."""
        found = self.values(name, **labels)
        if not found:
            raise NoSeriesError(f"no series of {name} with {labels}")
        assert len(found) == 1, f"{len(found)} series of {name} with {labels}"
        return found[0]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over all series with these labels; 0 without any."""
        return sum(self.values(name, **labels))


class Daemon:
    """`watchslo run` as a process; its address is read from its JSON log. Each daemon needs its own folder.

    The test fails if it ever prints a traceback. `wrapper` is a command that replaces itself by its arguments, here
    `program`.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        wrapper: Sequence[str | Path] = (),
        program: str | Path = WATCHSLO,
    ) -> None:
        folder.mkdir(exist_ok=True)
        own = ("--listen", "127.0.0.1:0", "--log-format", "json")
        self.process = Process(folder, "watchslo", [*wrapper, program, "run", *own, *arguments], env)

    def __enter__(self) -> Self:
        self.process.start()
        try:
            self.until_listening()
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        assert "Traceback" not in self.said, self.process.tail()

    @property
    def said(self) -> str:
        """All its output."""
        return self.process.err + self.process.out

    @property
    def url(self) -> str:
        """The URL of its server, for example `http://127.0.0.1:41234`."""
        return str(self._listening()[-1]["url"]).rstrip("/")

    def log(self, event: str) -> list[dict[str, Any]]:
        """Return the log entries of one event."""
        entries = []
        for line in self.process.err.splitlines():
            with contextlib.suppress(ValueError):  # the last line may be half written
                entries.append(json.loads(line))
        return [entry for entry in entries if entry["event"] == event]

    def get(self, path: str) -> tuple[int, str]:
        """GET a path; return the status and the text, for any status."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def scrape(self) -> Scrape:
        return Scrape(self.answer("/metrics"))

    def status(self) -> Any:
        """Return the document at `/api/v1/status`."""
        return json.loads(self.answer("/api/v1/status"))

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def watches_by_name(self) -> dict[str, Any]:
        """Return the watches in `/api/v1/status`, by name."""
        return {stream["watch"]: stream for stream in self.status()["watches"]}

    def measuring(self, *watches: str) -> bool:
        """Return True if these watches are open and their events are dated."""
        streams = self.watches_by_name()
        return all(
            watch in streams and streams[watch]["up"] and streams[watch]["membership"] == "member" for watch in watches
        )

    def until_listening(self) -> None:
        self.process.until(lambda: bool(self._listening()), "listening")

    def until(self, condition: Callable[[Scrape], bool], what: str) -> None:
        """Wait until `condition(scrape)` holds for a new scrape, which needs the series that it reads."""

        def holds() -> bool:
            with contextlib.suppress(NoSeriesError):
                return condition(self.scrape())
            return False

        self.process.until(holds, what, LOOK_SECONDS)

    def until_said(self, event: str, **facts: Any) -> dict[str, Any]:
        """Wait until the log has an entry of this event with these fields; return the first one."""
        wanted = facts.items()
        return self.process.until(
            lambda: next((entry for entry in self.log(event) if wanted <= entry.items()), None),
            f"said {event} {facts}",
            LOOK_SECONDS,
        )

    def until_ready(self) -> None:
        self.process.until(self.ready, "ready", LOOK_SECONDS)

    def until_not_ready(self, *whys: str) -> None:
        """Wait until `/readyz` is 503 and gives one of the reasons `whys`; `/healthz` must stay 200."""

        def says() -> bool:
            assert self.get("/healthz")[0] == 200
            code, text = self.get("/readyz")
            return code == 503 and any(why in text for why in whys)

        self.process.until(says, f"not ready: {' or: '.join(whys)}", LOOK_SECONDS)

    def until_measuring(self, *watches: str) -> None:
        """Wait until these watches are open and their events are dated."""
        self.process.until(lambda: self.measuring(*watches), f"measuring {watches}", LOOK_SECONDS)

    def samples(self, watch: str) -> float:
        """Return how many events of a watch have been measured; a watch that was never open has no series."""
        return self.scrape().total("watchslo_apiserver_timespan_seconds_count", watch=watch)

    def until_samples(self, watch: str, least: float) -> None:
        """Wait until at least `least` events of a watch have been measured."""
        self.process.until(lambda: self.samples(watch) >= least, f"{least} of {watch} measured", LOOK_SECONDS)

    def until_sampled(self, watch: str, least: float, write: Callable[[int], object]) -> None:
        """Wait for `least` samples while `write(number)` makes events: an event that meets a late loop is no sample."""
        numbers = itertools.count()

        def sampled() -> bool:
            write(next(numbers))
            return self.samples(watch) >= least

        self.process.until(sampled, f"{least} of {watch} measured", WRITE_SECONDS)

    def stop(self) -> int:
        """Ask it to end by SIGTERM, and return its exit code."""
        return self.process.end()

    def answer(self, path: str) -> str:
        """Return the text at a path; retry after 503, the right answer while the measuring loop is late."""

        def answered() -> tuple[int, str] | None:
            answer = self.get(path)
            return None if answer[0] == 503 else answer

        status, text = eventually(answered, f"{path} answered", LOOK_SECONDS)
        assert status == 200, text
        return text

    def _listening(self) -> list[dict[str, Any]]:
        return self.log("listening")


def start_all(stack: contextlib.ExitStack, daemons: Iterable[Daemon]) -> None:
    """Start daemons in parallel and wait until all listen; `stack` stops them."""
    started = list(daemons)
    for daemon in started:
        daemon.process.start()
        stack.callback(daemon.__exit__)
    for daemon in started:
        daemon.until_listening()


class _Announced:
    """A process that prints its addresses as a line of JSON (`announced`) and is controlled by HTTP."""

    def __init__(self, folder: Path, name: str, module: str, *arguments: str) -> None:
        self.process = Process(folder, name, [sys.executable, "-m", module, *arguments])

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.process.kill()
            raise
        return self

    def start(self) -> None:
        """Start it, or start it again after its end."""
        lines = self.process.out.count("\n") if self.process.has_started else 0
        self.process.start()
        self.process.until(lambda: self.process.out.count("\n") > lines, "listening")

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    @property
    def announced(self) -> dict[str, str]:
        line: dict[str, str] = json.loads(self.process.out.splitlines()[-1])
        return line

    def control(self, body: dict[str, Any], what: str = "") -> Any:
        """Post to its control API and return the answer."""
        request = urllib.request.Request(self.announced["control"] + what, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)


class Simulator(_Announced):
    """`python -m watchslo.sim`, controlled for example by `control({}, "/compact")`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, "simulator", "watchslo.sim", "--port", "0", *arguments)

    @property
    def url(self) -> str:
        return self.announced["url"]


class Proxy(_Announced):
    """`python -m watchslo.sim.proxy` before the servers at these URLs; connections alternate between them.

    With `ca` it speaks TLS to them and plain HTTP to its client. `control({"law": "…"})` sets the delay of bytes.
    It listens on a free port, or at a host and a port.
    """

    def __init__(
        self, folder: Path, name: str, *to: str, ca: Path | None = None, listen: tuple[str, int] | None = None
    ) -> None:
        self._scheme = "http" if ca else urlsplit(to[0]).scheme
        servers = [argument for url in to for argument in ("--to", urlsplit(url).netloc)]
        tls = ("--ca", str(ca)) if ca else ()
        where = ("--host", listen[0], "--port", str(listen[1])) if listen else ()
        super().__init__(folder, name, "watchslo.sim.proxy", *servers, *tls, *where)

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self.announced['listen']}"

    def switch_on(self, fault: str, value: float | str | None = None, connections: str | int | None = None) -> None:
        """Switch on a fault of `watchslo.sim.link_faults` for connections that are `open`, `new` or `all`, or for one.

        The number of one is that of its chunks.
        """
        self.control({"name": fault, "value": value, "connections": connections}, "/faults")

    def switch_off(self, fault: str) -> None:
        self.control({"name": fault, "on": False}, "/faults")

    @contextlib.contextmanager
    def fault(
        self, name: str, value: float | str | None = None, connections: str | int | None = None
    ) -> Iterator[None]:
        """Keep a fault switched on while the context is open."""
        self.switch_on(name, value, connections)
        try:
            yield
        finally:
            self.switch_off(name)

    @contextlib.contextmanager
    def late(self, law: str) -> Iterator[None]:
        """Delay bytes to clients by a law, such as `constant 300ms`, while the context is open."""
        self.control({"law": law})
        try:
            yield
        finally:
            self.control({"law": "none"})
