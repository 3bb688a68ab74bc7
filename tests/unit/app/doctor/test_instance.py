"""What a running instance answers, and what is said about it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.app.doctor.server import serving
from tests.unit.app.doctor.shown import findings_transcript
from tests.unit.serve import readings
from watchslo.app.doctor import instance
from watchslo.app.doctor.addresses import Reach
from watchslo.app.doctor.findings import FindingLevel
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


async def test_findings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    found = {}
    for name, (readyz, answer) in STATES.items():
        async with serving({"/readyz": readyz, "/api/v1/status": answer}) as endpoint:
            found[name] = await check_instance(endpoint, VERSION)
    said = findings_transcript(found)
    assert "secret" not in said
    golden("doctor/instance.txt", said)


@pytest.mark.parametrize(
    ("reach", "text", "remedy"),
    [
        (Reach.DROPPED, "is neither accepted nor refused", "Allow TCP port 9477 to the pods of watchslo (Ingress"),
        (Reach.REFUSED, "the connection is refused", "Check --instance"),
    ],
)
async def test_unreachable_instance(reach: Reach, text: str, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def reached(_: str) -> Reach:
        return reach

    async def fail(*_: object) -> None:
        raise ConnectError("the connection is refused")

    monkeypatch.setattr(instance, "tcp_reach", reached)
    endpoint = HttpEndpoint("http://10.0.0.1:9477", DaemonCredentials())
    monkeypatch.setattr(endpoint, "get", fail)
    (finding,) = await check_instance(endpoint, VERSION)
    assert finding.level is FindingLevel.PROBLEM
    assert text in finding.text
    assert remedy in finding.remedy
