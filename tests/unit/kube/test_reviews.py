"""The meaning of the answers to reviews; the transcripts of a client have their requests and failures."""

from typing import Any

import msgspec
import pytest

from tests.unit.kube.conftest import Server, answer
from watchslo.kube.client import Client
from watchslo.kube.reviews import Review, ReviewedAccess, may, review
from watchslo.watch.failure import Failure

USER = {"username": "prometheus", "uid": "u-1", "groups": ["g"], "extra": {"k": ["v"]}}
AUTHENTICATED = {"status": {"authenticated": True, "user": USER}}
CREATED = "201 Created"


def review_answer(document: Any, status: str = CREATED) -> bytes:
    return answer(msgspec.json.encode(document), status)


async def reviewed(server: Server, client: Client, *script: bytes) -> Review | Failure:
    server.script = [*script]
    return await review(client, "secret", "/metrics")


@pytest.mark.parametrize(("allowed", "verdict"), [(True, Review.ALLOWED), (False, Review.FORBIDDEN)])
async def test_review_of_a_known_user(server: Server, client: Client, *, allowed: bool, verdict: Review) -> None:
    answers = review_answer(AUTHENTICATED), review_answer({"status": {"allowed": allowed, "reason": "RBAC"}})
    assert await reviewed(server, client, *answers) is verdict
    assert client.requests == {("token_review", "201"): 1, ("access_review", "201"): 1}


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False},
        {"error": "[invalid bearer token, service account token has expired]"},
        {"authenticated": False, "user": {}, "error": "token audiences are invalid"},
    ],
)
async def test_unknown_user_is_not_allowed(server: Server, client: Client, status: Any) -> None:
    assert await reviewed(server, client, review_answer({"status": status})) is Review.UNKNOWN
    assert len(server.requests) == 1


async def test_user_without_uid_groups_and_extra(server: Server, client: Client) -> None:
    user = {"status": {"authenticated": True, "user": {"username": "a"}}}
    allowed = {"status": {"allowed": True}}
    assert await reviewed(server, client, review_answer(user), review_answer(allowed)) is Review.ALLOWED


@pytest.mark.parametrize("allowed", [True, False])
async def test_may_returns_the_decision(server: Server, client: Client, *, allowed: bool) -> None:
    server.script = [review_answer({"status": {"allowed": allowed, "denied": True}})]
    assert await may(client, ReviewedAccess("watch", "", "pods")) is allowed
