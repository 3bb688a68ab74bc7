"""Decisions from access reviews: how many reviews are made, and what replaces one that fails."""

import asyncio
from collections.abc import Callable

from tests.conftest import GOLDEN
from tests.support.transcripts import AsyncStep, replay_async
from tests.unit.monitor.cluster import Log
from watchslo.app import authorization
from watchslo.app.authorization import Authorizer
from watchslo.errors import UnavailableError
from watchslo.kube.reviews import Review
from watchslo.serve.auth import Bearer, may_continue
from watchslo.serve.auth_cache import ALLOWED_SECONDS, BURST, RETRY_SECONDS, TRUSTED_SECONDS, AccessDecision
from watchslo.watch.failure import Failure, Reason, because

DOWN = because(Reason.REFUSED)


class Apiserver:
    """Answers and counts reviews; `now` is the time of its authorizer."""

    def __init__(self, answer: Review | Failure = Review.ALLOWED) -> None:
        self.answer = answer
        self.reviews: list[tuple[str, str]] = []
        self.now = 1000.0
        self.hangs = False
        self.authorize = Authorizer(self._review, asyncio.get_running_loop(), lambda: self.now)

    async def _review(self, token: str, path: str) -> Review | Failure:
        self.reviews.append((token, path))
        await asyncio.sleep(3600.0 if self.hangs else 0.0)
        return self.answer

    async def decide(
        self, token: str = "token", path: str = "/metrics", address: str = "10.0.0.9"
    ) -> AccessDecision | str:
        try:
            return await self.authorize(Bearer(token, address), path)
        except UnavailableError as error:
            return str(error)


NO_REVIEW = authorization._NO_REVIEW
TOO_MANY = authorization._TOO_MANY


ANSWERS: dict[str, Review | Failure] = {"down": DOWN, **{one.name.lower(): one for one in Review}}


class Dialogue(Apiserver):
    """A transcript of requests; the outcome says whether the apiserver was asked for a review."""

    async def step(self, text: str) -> str | None:
        match text.split():
            case ["later", seconds]:
                self.now += float(seconds)
            case ["apiserver", "hangs"]:
                self.hangs = True
            case ["apiserver", answer]:
                self.answer = ANSWERS[answer]
            case ["request", token, path]:
                before = len(self.reviews)
                decision = await self.decide(token, path)
                assert self.reviews[before:] in ([], [(token, path)])
                shown = "no review" if decision == NO_REVIEW else AccessDecision(decision).value
                return f"{shown}{', asked' if self.reviews[before:] else ''}"
        return None


async def test_decisions_are_those_of_the_golden_file(golden: Callable[[str, str], None], log: Log) -> None:
    async def begin(_: str) -> AsyncStep:
        return Dialogue().step

    golden("access-reviews.txt", await replay_async((GOLDEN / "access-reviews.txt").read_text(), begin))
    assert [entry["reason"] for entry in log.of("reviews_failed")] == ["refused"] * 4 + ["timeout"]
    assert len(log.of("recovered")) == 2


async def test_concurrent_requests_share_one_review() -> None:
    apiserver = Apiserver()
    assert set(await asyncio.gather(*(apiserver.decide() for _ in range(50)))) == {AccessDecision.ALLOWED}
    assert len(apiserver.reviews) == 1


async def test_cancelled_request_does_not_cancel_the_shared_review() -> None:
    apiserver = Apiserver()
    first, second = (asyncio.create_task(apiserver.decide()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is AccessDecision.ALLOWED
    assert len(apiserver.reviews) == 1


async def test_each_path_is_reviewed_separately() -> None:
    apiserver = Apiserver()
    await apiserver.decide(path="/metrics")
    apiserver.answer = Review.FORBIDDEN
    assert await apiserver.decide(path="/") is AccessDecision.FORBIDDEN
    assert await apiserver.decide(path="/metrics") is AccessDecision.ALLOWED


async def test_failed_review_is_not_cached(log: Log) -> None:
    apiserver = Apiserver(DOWN)
    assert [await apiserver.decide() for _ in range(2)] == [NO_REVIEW] * 2
    assert len(apiserver.reviews) == 2
    assert [entry["reason"] for entry in log.of("reviews_failed")] == ["refused"]
    apiserver.answer = Review.ALLOWED
    assert await apiserver.decide() is AccessDecision.ALLOWED
    assert len(log.of("recovered")) == 1


async def test_allowed_token_stays_allowed_while_reviews_fail() -> None:
    apiserver = Apiserver()
    await apiserver.decide()
    apiserver.answer = DOWN
    apiserver.now += ALLOWED_SECONDS
    assert [await apiserver.decide() for _ in range(5)] == [AccessDecision.ALLOWED] * 5
    assert len(apiserver.reviews) == 2
    assert await apiserver.decide("other") == NO_REVIEW
    apiserver.now += RETRY_SECONDS
    apiserver.answer = Review.UNKNOWN  # it was revoked
    assert await apiserver.decide() is AccessDecision.UNKNOWN
    apiserver.answer = DOWN
    apiserver.now += ALLOWED_SECONDS
    assert await apiserver.decide() == NO_REVIEW


async def test_allowed_token_expires_while_reviews_fail() -> None:
    apiserver = Apiserver()
    await apiserver.decide()
    apiserver.answer = DOWN
    apiserver.now += TRUSTED_SECONDS
    assert await apiserver.decide() == NO_REVIEW


async def test_open_feed_is_reviewed_periodically() -> None:
    """An open feed is checked like new requests: a review lasts a minute, or a quarter of an hour without others."""
    apiserver = Apiserver()

    async def continues(after: float) -> bool:
        apiserver.now += after
        return await may_continue(apiserver.authorize, Bearer("token", "10.0.0.9"))

    assert [await continues(5.0) for _ in range(24)] == [True] * 24
    assert len(apiserver.reviews) == 2
    apiserver.answer = DOWN
    assert [await continues(5.0) for _ in range(168)] == [True] * 168
    assert not await continues(5.0)
    apiserver.answer = Review.ALLOWED
    assert await continues(5.0)
    apiserver.answer = Review.FORBIDDEN
    assert await continues(ALLOWED_SECONDS - 1.0)
    assert not await continues(1.0)


async def test_hanging_review_times_out(log: Log) -> None:
    apiserver = Apiserver()
    await apiserver.decide()
    apiserver.hangs = True
    assert await apiserver.decide("other") == NO_REVIEW
    apiserver.now += ALLOWED_SECONDS
    assert await apiserver.decide() is AccessDecision.ALLOWED
    assert [entry["reason"] for entry in log.of("reviews_failed")] == ["timeout"]


async def test_flood_of_unknown_tokens_is_limited_and_known_tokens_pass() -> None:
    apiserver = Apiserver()
    await apiserver.decide()
    apiserver.answer = Review.UNKNOWN
    flood = await asyncio.gather(
        *(apiserver.decide(f"random {number}", address=f"client {number}") for number in range(1000))
    )
    assert flood.count(AccessDecision.UNKNOWN) == len(apiserver.reviews) - 1 == BURST - 1
    assert flood.count(TOO_MANY) == 1000 - (BURST - 1)
    assert await apiserver.decide() is AccessDecision.ALLOWED
    apiserver.now += ALLOWED_SECONDS
    for number in range(100):
        await apiserver.decide(f"another {number}", address=f"10.0.1.{number % 9}")
    apiserver.answer = Review.ALLOWED
    assert await apiserver.decide() is AccessDecision.ALLOWED


async def test_expired_token_needs_no_review() -> None:
    apiserver = Apiserver()
    assert await apiserver.decide("e30.eyJleHAiOiAxfQ.c2ln") is AccessDecision.UNKNOWN
    assert not apiserver.reviews
