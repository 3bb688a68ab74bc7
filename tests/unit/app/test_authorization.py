"""Verdicts from reviews: how many are asked for, and what stands in for one that cannot be had."""

import asyncio

import pytest

from tests.unit.monitor.cluster import Log
from watchslo.app import authorization
from watchslo.app.authorization import Authorizer
from watchslo.errors import UnavailableError
from watchslo.kube.reviews import Review
from watchslo.serve.gate import may_go_on
from watchslo.serve.verdicts import ALLOWED_SECONDS, BURST, RETRY_SECONDS, TRUSTED_SECONDS, Verdict
from watchslo.watch.failure import Failure, Reason, because

DOWN = because(Reason.REFUSED)


class Apiserver:
    """Answers reviews, and counts them; its authorizer's time is `now`."""

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

    async def says(self, token: str = "token", path: str = "/metrics") -> Verdict | str:
        try:
            return await self.authorize(token, path)
        except UnavailableError as error:
            return str(error)


NO_REVIEW = authorization._NO_REVIEW
TOO_MANY = authorization._TOO_MANY


@pytest.mark.parametrize(
    ("review", "verdict"),
    [
        (Review.ALLOWED, Verdict.ALLOWED),
        (Review.FORBIDDEN, Verdict.FORBIDDEN),
        (Review.UNKNOWN, Verdict.UNKNOWN),
    ],
)
async def test_a_review_is_asked_for_once(review: Review, verdict: Verdict) -> None:
    apiserver = Apiserver(review)
    assert [await apiserver.says() for _ in range(3)] == [verdict] * 3
    assert apiserver.reviews == [("token", "/metrics")]


async def test_all_who_ask_at_once_share_one() -> None:
    apiserver = Apiserver()
    assert set(await asyncio.gather(*(apiserver.says() for _ in range(50)))) == {Verdict.ALLOWED}
    assert len(apiserver.reviews) == 1


async def test_who_goes_away_takes_it_from_nobody() -> None:
    apiserver = Apiserver()
    first, second = (asyncio.create_task(apiserver.says()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second is Verdict.ALLOWED
    assert len(apiserver.reviews) == 1


async def test_each_path_is_a_right_of_its_own() -> None:
    apiserver = Apiserver()
    await apiserver.says(path="/metrics")
    apiserver.answer = Review.FORBIDDEN
    assert await apiserver.says(path="/") is Verdict.FORBIDDEN
    assert await apiserver.says(path="/metrics") is Verdict.ALLOWED


async def test_a_failure_is_no_verdict_and_is_not_kept(log: Log) -> None:
    apiserver = Apiserver(DOWN)
    assert [await apiserver.says() for _ in range(2)] == [NO_REVIEW] * 2
    assert len(apiserver.reviews) == 2
    assert [entry["reason"] for entry in log.of("reviews_failed")] == ["refused"]
    apiserver.answer = Review.ALLOWED
    assert await apiserver.says() is Verdict.ALLOWED
    assert len(log.of("recovered")) == 1


async def test_who_was_allowed_stays_so_meanwhile() -> None:
    apiserver = Apiserver()
    await apiserver.says()
    apiserver.answer = DOWN
    apiserver.now += ALLOWED_SECONDS
    assert [await apiserver.says() for _ in range(5)] == [Verdict.ALLOWED] * 5
    assert len(apiserver.reviews) == 2
    assert await apiserver.says("other") == NO_REVIEW
    apiserver.now += RETRY_SECONDS
    apiserver.answer = Review.UNKNOWN  # it was revoked
    assert await apiserver.says() is Verdict.UNKNOWN
    apiserver.answer = DOWN
    apiserver.now += ALLOWED_SECONDS
    assert await apiserver.says() == NO_REVIEW


async def test_not_for_ever() -> None:
    apiserver = Apiserver()
    await apiserver.says()
    apiserver.answer = DOWN
    apiserver.now += TRUSTED_SECONDS
    assert await apiserver.says() == NO_REVIEW


async def test_who_lasts_is_reviewed_again_and_again() -> None:
    """One who reads on is treated as one who asks anew: a minute by each review, a quarter of an hour without any."""
    apiserver = Apiserver()

    async def goes_on(after: float) -> bool:
        apiserver.now += after
        return await may_go_on(apiserver.authorize, "token")

    assert [await goes_on(5.0) for _ in range(24)] == [True] * 24
    assert len(apiserver.reviews) == 2
    apiserver.answer = DOWN
    assert [await goes_on(5.0) for _ in range(168)] == [True] * 168
    assert not await goes_on(5.0)
    apiserver.answer = Review.ALLOWED
    assert await goes_on(5.0)
    apiserver.answer = Review.FORBIDDEN
    assert await goes_on(ALLOWED_SECONDS - 1.0)
    assert not await goes_on(1.0)


async def test_one_that_hangs_ends(log: Log) -> None:
    apiserver = Apiserver()
    await apiserver.says()
    apiserver.hangs = True
    assert await apiserver.says("other") == NO_REVIEW
    apiserver.now += ALLOWED_SECONDS
    assert await apiserver.says() is Verdict.ALLOWED
    assert [entry["reason"] for entry in log.of("reviews_failed")] == ["timeout"]


async def test_strangers_cause_few_and_keep_out_nobody_who_is_known() -> None:
    apiserver = Apiserver()
    await apiserver.says()
    apiserver.answer = Review.UNKNOWN
    flood = await asyncio.gather(*(apiserver.says(f"random {number}") for number in range(1000)))
    assert flood.count(Verdict.UNKNOWN) == len(apiserver.reviews) - 1 == BURST - 1
    assert flood.count(TOO_MANY) == 1000 - (BURST - 1)
    assert await apiserver.says() is Verdict.ALLOWED
    apiserver.now += ALLOWED_SECONDS
    for number in range(100):
        await apiserver.says(f"another {number}")
    apiserver.answer = Review.ALLOWED
    assert await apiserver.says() is Verdict.ALLOWED
