"""What transcripts are played on: a loop whose time jumps, and the texts of what changed and what was logged."""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import pytest
import structlog
from structlog.testing import CapturingLogger

from tests.support.loop import JumpingLoop
from tests.support.transcripts import Step, calls, value
from tests.unit.monitor.inside import set_clocks
from watchslo.snapshot import HistogramReading

HOSTS = "10.0.0."
T = TypeVar("T")
FACTS = (
    *("apiserver", "watch", "resource", "group", "domain", "on", "cause", "guarantee", "reason"),
    *("count", "index", "elsewhere", "left_out", "addresses", "apiservers"),
)
"""What a transcript shows of a log entry, in this order."""


class Scene(ABC):
    """Something that is driven by text: `step` takes what happens, and returns what follows."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=JumpingLoop)
        self._patches = pytest.MonkeyPatch()
        loop = self._runner.get_loop()
        set_clocks(loop, self._patches)
        self._lost: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: self._lost.append(context))
        self._log = CapturingLogger()
        structlog.configure(processors=[], logger_factory=lambda *_: self._log, cache_logger_on_first_use=False)
        self._tasks: list[asyncio.Task[object]] = []
        self._seen: dict[str, str] = {}

    @abstractmethod
    def step(self, text: str) -> str | None: ...

    @abstractmethod
    def _state(self) -> dict[str, str]:
        """Return what is said about each part, by its name."""

    def end(self) -> None:
        """Shut down, and fail if a task or an exception is left."""
        try:
            self._runner.run(self._shut_down())
            assert not self._lost, self._lost
        finally:
            self._runner.close()
            self._patches.undo()

    async def _shut_down(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # a task that was just cancelled ends now
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        self._tasks.append(self._runner.get_loop().create_task(work))

    def _news(self, wait: Coroutine[Any, Any, None]) -> str:
        """Return what changed since the last news, and what was logged."""
        self._runner.run(wait)
        before, self._seen = self._seen, self._state()
        changed = {name: said for name, said in self._seen.items() if before.get(name) != said}
        gone = dict.fromkeys(before.keys() - self._seen.keys(), "gone")
        logged = Counter(_entry(call.kwargs) for call in self._log.calls if call.method_name != "debug")
        entries = [f"logs {entry}" + (f" {count} times" if count > 1 else "") for entry, count in logged.items()]
        self._log.calls.clear()
        return "\n".join([*grouped({**changed, **gone}), *entries]) or "nothing"


class CallScene(Scene):
    """A scene of which each line but `5 s` calls a method, with words for its arguments, while the loop runs."""

    def step(self, text: str) -> str | None:
        match text.split():
            case [seconds, "s"]:
                return self._news(self._wait(float(seconds)))
            case [name, *words] if inspect.iscoroutinefunction(getattr(self, name)):
                self._runner.run(getattr(self, name)(*map(value, words)))
                return None
        return self.now(lambda: calls(self)(text))

    def now(self, call: Callable[[], T]) -> T:
        """Call while the loop runs."""

        async def run() -> T:
            return call()

        return self._runner.run(run())

    @abstractmethod
    async def _run(self) -> object:
        """What begins when time passes for the first time."""

    async def _wait(self, seconds: float) -> None:
        if not self._tasks:
            self._begin(self._run())
        await asyncio.sleep(seconds)


class Stage:
    """Where transcripts are played one after the other, each on a scene of its own."""

    def __init__(self, scene: Callable[[str], Scene]) -> None:
        self._new_scene = scene
        self._scene: Scene | None = None

    def begin(self, beginning: str) -> Step:
        self.end()
        self._scene = self._new_scene(beginning)
        return self._scene.step

    def end(self) -> None:
        scene, self._scene = self._scene, None
        if scene is not None:
            scene.end()


Play = Callable[[str, Callable[[str], Scene]], None]
"""Plays the transcripts of a golden file, each on a scene of its own, and compares the outcomes."""


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


def grouped(said: Mapping[str, str]) -> list[str]:
    """Return one line for each text, with the names of all that it is about."""
    names = defaultdict[str, list[str]](list)
    for name in sorted(said):
        names[said[name]].append(name)
    return [f"{' '.join(about)}: {text}" for text, about in names.items()]


def counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counted.items())) or "none"


def shown(figure: Any) -> str:
    match figure:
        case Mapping():
            counted = ((" ".join(key) if isinstance(key, tuple) else key, number) for key, number in figure.items())
            text = ", ".join(f"{name} {shown(number)}" for name, number in sorted(counted) if number)
        case HistogramReading():
            text = str(figure.total)
        case _ if is_dataclass(figure):
            text = ", ".join(f"{one.name} {shown(getattr(figure, one.name))}" for one in fields(figure))
        case str():
            text = place(figure)
        case float():
            text = f"{figure:.2g}"
        case list() | tuple():
            text = " and ".join(map(shown, figure))
        case _:
            text = str(figure)
    return text or "nothing"


def _entry(logged: Mapping[str, Any]) -> str:
    facts = (f"{name}={shown(logged[name])}" for name in FACTS if name in logged)
    return " ".join([logged["event"], *facts])


def place(text: str) -> str:
    """Return the number of a host, if it is one of an apiserver."""
    is_host = text.startswith(HOSTS) and " " not in text
    return text.removeprefix(HOSTS).partition(":")[0] if is_host else text
