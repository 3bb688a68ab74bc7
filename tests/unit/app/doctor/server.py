"""A server with set answers, in place of a Prometheus, an Alertmanager or a daemon."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from watchslo.app.http_endpoint import DaemonCredentials, HttpEndpoint

Answers = Mapping[str, Any]
"""By path: a text, a document for JSON, or (status, text)."""


def success(data: object) -> dict[str, object]:
    """Return an answer of the API of Prometheus."""
    return {"status": "success", "data": data}


def vector(*samples: tuple[Mapping[str, str], float]) -> dict[str, object]:
    result = [{"metric": dict(labels), "value": [1.5, str(value)]} for labels, value in samples]
    return success({"resultType": "vector", "result": result})


@asynccontextmanager
async def serving(answers: Answers, asked: list[web.Request] | None = None) -> AsyncIterator[HttpEndpoint]:
    """Provide an endpoint whose paths have these answers; a function gets the request. Other paths get 404."""

    async def answer(request: web.Request) -> web.Response:
        if asked is not None:
            asked.append(request)
        given = answers.get(request.path, (404, "no such page"))
        given = given(request) if callable(given) else given
        status, body = given if isinstance(given, tuple) else (200, given)
        return web.Response(status=status, text=body if isinstance(body, str) else json.dumps(body))

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with (
        TestServer(app) as server,
        HttpEndpoint(str(server.make_url("")), DaemonCredentials(), "a Prometheus") as endpoint,
    ):
        yield endpoint
