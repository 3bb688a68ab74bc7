"""Faults that break the guarantees of watches, over real HTTP."""

import asyncio
from typing import Any

from tests.unit.sim.api import CONFIGMAPS, Api, Simulate
from watchslo.sim import faults


async def switch(api: Api, name: str, *, on: bool = True) -> None:
    await api.control("faults", {"name": name, "on": on})


async def edits(api: Api, since: float = 0.0) -> Any:
    return (await api.get(f"/sim/edits?since={since}")).json["edits"]


async def test_fault_repeats_until_it_is_switched_off(simulate: Simulate) -> None:
    name = "duplicate-event"
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    await switch(api, name)
    written = [await api.configmap("a")]
    while len((await edits(api))["revision"]) < 3:
        await asyncio.sleep(faults.FAULTS[name].every / 2)
        written.append(await api.touch(f"{CONFIGMAPS}/a", str(len(written))))
    await switch(api, name, on=False)
    written.append(await api.configmap("last"))
    wrong = (await edits(api))["revision"]
    seen = [await watch.revision() for _ in range(len(written) + len(wrong))]
    assert seen == sorted([*written, *wrong])
    assert written[-1] not in wrong
