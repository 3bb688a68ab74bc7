"""What a running instance answers, and what is said about it."""

import json
from typing import Any

import pytest

from tests.unit.app.doctor.server import serving
from tests.unit.serve import readings
from watchslo.app.doctor import instance
from watchslo.app.doctor.addresses import Reach
from watchslo.app.doctor.findings import FindingLevel
from watchslo.app.doctor.instance import check_instance
from watchslo.app.http_endpoint import DaemonCredentials, HttpEndpoint
from watchslo.errors import ConnectError
from watchslo.serve.status import StatusEncoder

PROBLEM, WARNING, UNCHECKED, GOOD = FindingLevel
VERSION = readings.SNAPSHOT.monitor.build.version


def status(*, trust: Any = "good", version: str = VERSION, **monitor: Any) -> str:
    """Return the status of a real encoder, with some facts replaced."""
    document = json.loads(StatusEncoder().encode(readings.SNAPSHOT).body)
    document["monitor"] |= {"paused": False, "reloadSucceeded": True, **monitor}
    document["monitor"]["build"]["version"] = version
    document["trust"] = trust and {"name": "x", "level": trust, "text": "Mostly: check Lag."}
    return json.dumps(document)


async def outcome(readyz: Any, answer: Any) -> list[tuple[FindingLevel, str]]:
    async with serving({"/readyz": readyz, "/api/v1/status": answer}) as endpoint:
        return [(finding.level, finding.text) for finding in await check_instance(endpoint, VERSION)]


async def test_healthy_instance_is_good_in_every_respect() -> None:
    found = await outcome("ok\n", status())
    assert found == [
        (GOOD, "It is ready."),
        (GOOD, f"It is version {VERSION}, as this command."),
        (GOOD, "Its self checks pass."),
    ]


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (status(version="9.9"), WARNING, f"It is version 9.9, and this command is {VERSION}."),
        (status(trust="bad"), PROBLEM, "Can it be trusted? Mostly: check Lag."),
        (status(trust="unknown"), WARNING, "Can it be trusted? Mostly: check Lag."),
        (status(trust=None), UNCHECKED, "It has made no self check yet."),
        (status(paused=True), PROBLEM, "Watching is paused."),
        (status(reloadSucceeded=False), PROBLEM, "It refused the last change of its configuration."),
        (
            (401, "secret"),
            UNCHECKED,
            "It requires a valid token; pass one with --token-file.",
        ),
        ((403, "secret"), UNCHECKED, "grant it the verb get on the path /."),
        ((503, "secret"), UNCHECKED, "It does not answer as a watchslo daemon; check the URL."),
        ("<html>secret", UNCHECKED, "It does not answer as a watchslo daemon; check the URL."),
    ],
)
async def test_every_trouble_is_one_finding(answer: Any, level: FindingLevel, text: str) -> None:
    found = await outcome("ok\n", answer)
    (trouble,) = (one for one in found if one[0] is not GOOD)
    assert trouble[0] is level
    assert trouble[1].endswith(text)
    assert "secret" not in str(found)


async def test_reasons_of_an_instance_that_is_not_ready_are_repeated() -> None:
    found = await outcome((503, "pods has not been opened yet.\nThe clock does not tick.\n"), status())
    assert found[:2] == [
        (PROBLEM, "It is not ready: pods has not been opened yet."),
        (PROBLEM, "It is not ready: The clock does not tick."),
    ]


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
    assert finding.level is PROBLEM
    assert text in finding.text
    assert remedy in finding.remedy
