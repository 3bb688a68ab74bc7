"""The answers to reads and writes of single requests: transcripts over real HTTP."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.transcripts import AsyncStep, replay_async
from tests.unit.sim.api import Answer, Api, Simulate

GOLDEN = Path(__file__).parents[2] / "golden" / "sim" / "answers.txt"
LONGEST = 200  # characters of a document of discovery


async def test_simulator_answers_as_its_transcripts_say(simulate: Simulate, golden: Callable[[str, str], None]) -> None:
    async def begin(settings: str) -> AsyncStep:
        api = await simulate(**json.loads(settings))

        async def step(request: str) -> str:
            return said(await asked(api, request)).replace(api.url.removeprefix("http://"), "HOST")

        return step

    golden("sim/answers.txt", await replay_async(GOLDEN.read_text(), begin))


async def asked(api: Api, request: str) -> Answer:
    """Send `GET PATH [as ACCEPT]`, `METHOD PATH [JSON]` or, with an empty object, `METHOD PATH as CONTENT_TYPE`."""
    method, path, *more = request.split(maxsplit=2)
    if method == "GET":
        return await api.get(path, *(accept.removeprefix("as ") for accept in more))
    if more and more[0].startswith("as "):
        return await api.write(method, path, {}, more[0].removeprefix("as "))
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    return await api.write(method, path, json.loads(more[0]) if more else None, media)


def said(answer: Answer) -> str:
    """Return the code with what matters of the answer: a Status, an object, the names of a list, events, or a text."""
    lines = answer.text.splitlines()
    if not answer.text.startswith("{"):
        return f"{answer.code} {answer.text}".strip()
    if lines[0].startswith('{"type":'):
        return " ".join([str(answer.code), *(json.loads(line)["type"] for line in lines)])
    document = answer.json
    match document.get("kind"):
        case "Status":
            shown = " ".join(filter(None, (document.get("reason") or document["status"], document.get("message"))))
        case str() as kind if kind.endswith("List") and "items" in document and "Discovery" not in kind:
            shown = f"{kind} {' '.join(item['metadata']['name'] for item in document['items'])}".strip()
        case str() as kind if "metadata" in document and "name" in document["metadata"]:
            shown = f"{document['apiVersion']} {kind} {json.dumps(document.get('data', {}))}"
        case _:
            shown = answer.text.strip()[:LONGEST]
    return f"{answer.code} {shown}"
