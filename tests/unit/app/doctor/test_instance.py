"""What a running instance answers, and what is said about it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.app.doctor.server import serving
from tests.unit.app.doctor.shown import findings_transcript
from tests.unit.serve import readings
from watchslo.app.doctor import instance
from watchslo.app.doctor.addresses import Reach
from watchslo.app.doctor.instance import check_instance
from watchslo.app.http_endpoint import DaemonCredentials, HttpEndpoint
from watchslo.errors import ConnectError
from watchslo.serve.status import StatusEncoder

VERSION = readings.SNAPSHOT.monitor.build.version


def status(*, trust: Any = "good", version: str = VERSION, **monitor: Any) -> str:
    """Return the status of a real encoder, with some facts replaced."""
    document = json.loads(StatusEncoder().encode(readings.SNAPSHOT).body)
    document["monitor"] |= {"paused": False, "reloadSucceeded": True, **monitor}
    document["monitor"]["build"]["version"] = version
    document["trust"] = trust and {"name": "x", "level": trust, "text": "Mostly: check Lag."}
    return json.dumps(document)


READY = "ok\n"
STATES: dict[str, tuple[Any, Any]] = {
    "healthy": (READY, status()),
    "another version": (READY, status(version="9.9")),
    "self checks fail": (READY, status(trust="bad")),
    "self checks are unsure": (READY, status(trust="unknown")),
    "no self check yet": (READY, status(trust=None)),
    "paused": (READY, status(paused=True)),
    "refused a change": (READY, status(reloadSucceeded=False)),
    "401": (READY, (401, "secret")),
    "403": (READY, (403, "secret")),
    "503": (READY, (503, "secret")),
    "no status": (READY, "<html>secret"),
    "not ready for two reasons": ((503, "pods has not been opened yet.\nThe clock does not tick.\n"), status()),
}


def reaching(reach: Reach) -> Callable[[str], Awaitable[Reach]]:
    async def reached(_: str) -> Reach:
        return reach

    return reached


async def fail(*_: object) -> None:
    raise ConnectError("the connection is refused")


async def test_findings_match_golden_file(golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for name, (readyz, answer) in STATES.items():
        async with serving({"/readyz": readyz, "/api/v1/status": answer}) as endpoint:
            found[name] = await check_instance(endpoint, VERSION)

    for reach in (Reach.DROPPED, Reach.REFUSED):
        monkeypatch.setattr(instance, "tcp_reach", reaching(reach))
        endpoint = HttpEndpoint("http://10.0.0.1:9477", DaemonCredentials())
        monkeypatch.setattr(endpoint, "get", fail)
        found[f"a connection is {reach.name.lower()}"] = await check_instance(endpoint, VERSION)
    said = findings_transcript(found)
    assert "secret" not in said
    golden("doctor/instance.txt", said)
