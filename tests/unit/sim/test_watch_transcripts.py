"""Watches of the simulator and the faults that change them: transcripts in `tests/golden/sim/watches.txt`."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.support.transcripts import AsyncStep, replay_async
from tests.unit.sim.api import Api, Simulate, Watch

TRANSCRIPTS = Path(__file__).parents[2] / "golden" / "sim" / "watches.txt"


class Played:
    """A client of a simulated cluster, which names its watches; `@` stands for the newest revision."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._watches: dict[str, Watch] = {}
        self._newest = self._touched = 0
        self._token = ""

    async def step(self, text: str) -> str | None:
        name, *words = text.split()
        found: str | None = await getattr(self, name)(*words)
        return found

    async def newest(self, resource: str) -> str:
        self._newest = await self._api.newest(_collection(resource))
        return str(self._newest)

    async def create(self, resource: str, *names: str) -> str:
        return ", ".join([str(await self._api.configmap(name, _collection(resource))) for name in names])

    async def touch(self, resource: str, name: str, count: str) -> str:
        for _ in range(int(count)):
            self._touched += 1
            revision = await self._api.touch(f"{_collection(resource)}/{name}", str(self._touched))
        return str(revision)

    async def delete(self, resource: str, name: str) -> None:
        await self._api.write("DELETE", f"{_collection(resource)}/{name}")

    async def watch(self, name: str, resource: str, *options: str) -> None:
        query = "&".join(["watch=1", *(option.replace("@", str(self._newest)) for option in options)])
        self._watches[name] = await self._api.watch(f"{_collection(resource)}?{query}")

    async def receive(self, name: str, count: str) -> str:
        """Return the next events as the initials of their types with their revisions."""
        events = [await self._watches[name].event() for _ in range(int(count))]
        return " ".join(f"{kind[0]}{document['metadata']['resourceVersion']}" for kind, document in events)

    async def lines(self, name: str, count: str) -> str:
        """Return the next lines without repetitions."""
        found = [(await self._watches[name].line()).decode().strip() for _ in range(int(count))]
        return "\n".join(dict.fromkeys(found))

    async def types(self, name: str, count: str) -> str:
        """Return how often each type is among the next events."""
        found = Counter([(await self._watches[name].event())[0] for _ in range(int(count))])
        return ", ".join(f"{times} {kind}" for kind, times in found.items())

    async def waits(self, name: str) -> str:
        """Return whether a line arrives within a second; such a line is lost."""
        try:
            await asyncio.wait_for(self._watches[name].line(), 1.0)
        except TimeoutError:
            return "nothing"
        return "something"

    async def arrivals(self, name: str) -> str:
        """Return the types of all events until the watch ends, and after how many seconds from now they arrive."""
        found = await self._watches[name].arrivals()
        return ", ".join(f"{kind} after {seconds} s" for kind, seconds in found) or "no event"

    async def end(self, name: str) -> str:
        """Return the types of all events until the watch ends."""
        return " ".join(await self._watches[name].rest()) or "no event"

    async def list(self, resource: str, *options: str) -> str:
        """Return what a list has; the next one of `continue=TOKEN` takes its token."""
        query = "&".join(option.replace("TOKEN", self._token) for option in options)
        answer = await self._api.get(f"{_collection(resource)}?{query}")
        metadata = answer.json["metadata"]
        self._token = metadata.get("continue", "")
        names = [item["metadata"]["name"] for item in answer.json.get("items", ())]
        return " ".join([str(answer.code), *names, f"at {metadata.get('resourceVersion')}"])

    async def objects(self, resource: str, count: str) -> None:
        await self._api.control("objects", {"resource": resource, "count": int(count)})

    async def latency(self, resource: str, hop: str, *law: str) -> None:
        await self._api.control("latency", {"resource": resource, hop: " ".join(law)})

    async def wait(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds))

    async def compact(self) -> None:
        await self._api.control("compact")

    async def on(self, fault: str) -> None:
        await self._api.control("faults", {"name": fault})

    async def off(self, fault: str) -> None:
        await self._api.control("faults", {"name": fault, "on": False})

    async def edits(self) -> str:
        edits = (await self._api.get("/sim/edits?since=0")).json["edits"]
        columns = (edits[name] for name in ("fault", "revision", "resource", "stream"))
        return "\n".join(map("{} {} of {} to watch {}".format, *columns)) or "none"


def _collection(resource: str) -> str:
    return f"/api/v1/namespaces/default/{resource}"


async def test_simulator_does_what_its_transcripts_of_watches_say(
    simulate: Simulate, golden: Callable[[str, str], None]
) -> None:
    async def begin(settings: str) -> AsyncStep:
        return Played(await simulate(**json.loads(settings))).step

    golden("sim/watches.txt", await replay_async(TRANSCRIPTS.read_text(), begin))
