"""How long access decisions hold, and which clients may cause reviews."""

import base64
from collections.abc import Callable

import pytest

from tests.conftest import GOLDEN
from tests.support.transcripts import calls, replay
from watchslo.serve.auth_cache import (
    BURST,
    MOST,
    MOST_ADDRESSES,
    AccessDecision,
    AccessDecisions,
    is_expired,
    key_of,
)

NOW = 1000.0
KNOWN = key_of("token", "/metrics")


def unknown(number: int) -> bytes:
    return key_of(f"unknown {number}", "/metrics")


def allowed(at: float = NOW) -> AccessDecisions:
    decisions = AccessDecisions()
    decisions.reviewed(KNOWN, AccessDecision.ALLOWED, at)
    return decisions


def exhausted(decisions: AccessDecisions, now: float) -> int:
    """Return how many unknown clients may be reviewed at `now`."""
    number = 0
    while decisions.may_review(unknown(number), f"client {number} at {now}", now):
        number += 1
    return number


class TestKey:
    def test_key_does_not_contain_the_token(self) -> None:
        assert b"token" not in KNOWN
        assert len(key_of("x" * 8000, "/" * 8000)) == len(KNOWN)

    def test_key_differs_by_token_and_path(self) -> None:
        assert len({KNOWN, key_of("token", "/"), key_of("other", "/metrics"), key_of("token/", "metrics")}) == 4


class NamedDecisions:
    """Decisions about clients that are known by a name, or by the address that they ask from."""

    def __init__(self) -> None:
        self._decisions = AccessDecisions()

    def reviewed(self, name: str, decision: str, now: float) -> None:
        self._decisions.reviewed(key_of(name, "/metrics"), AccessDecision(decision), now)

    def in_force(self, name: str, now: float) -> str | None:
        found = self._decisions.in_force(key_of(name, "/metrics"), now)
        return found and found.value

    def trusted(self, name: str, now: float) -> bool:
        return self._decisions.trusted(key_of(name, "/metrics"), now)

    def may_review(self, name: str, now: float) -> bool:
        return self._decisions.may_review(key_of(name, "/metrics"), "10.0.1.1", now)

    def unknown_clients(self, now: float) -> int:
        """Return how many unknown clients may be reviewed."""
        return exhausted(self._decisions, now)


def test_decisions_hold_as_the_transcripts_say(golden: Callable[[str, str], None]) -> None:
    golden(
        "access-decisions.txt", replay((GOLDEN / "access-decisions.txt").read_text(), lambda _: calls(NamedDecisions()))
    )


class TestUnknownClients:
    def test_flood_from_one_address_leaves_reviews_to_others(self) -> None:
        decisions = AccessDecisions()
        flood = [decisions.may_review(unknown(number), "10.0.0.66", NOW) for number in range(1000)]
        assert sum(flood) == (BURST + 1) / 2
        for second in range(600):
            now = NOW + second
            for number in range(40):
                decisions.may_review(unknown(number), "10.0.0.66", now)
            if second % 3 == 0:
                assert decisions.may_review(unknown(second), f"10.0.1.{second}", now)

    def test_flood_from_two_addresses_does_not_lock_out_new_scrapers(self) -> None:
        decisions = AccessDecisions()
        waiting, reviewed = set(range(15)), []
        for tenth in range(600):
            now = NOW + tenth / 10
            for number in range(40):
                decisions.may_review(unknown(number), f"10.0.0.{number % 2}", now)
            if tenth >= 300 and tenth % 100 == 0:  # all scrape at once, every ten seconds
                new = {number for number in waiting if decisions.may_review(unknown(number), f"10.0.1.{number}", now)}
                waiting -= new
                reviewed.append(len(new))
        assert reviewed == [9, 6, 0]

    def test_address_of_refused_clients_gets_one_review_a_second_in_a_quiet_time(self) -> None:
        decisions = AccessDecisions()
        found = [decisions.may_review(unknown(second), "10.0.0.1", NOW + second) for second in range(60)]
        assert found == [True] * 60

    def test_allowed_clients_of_one_address_do_not_use_up_its_share(self) -> None:
        decisions = AccessDecisions()
        for number in range(50):
            assert decisions.may_review(unknown(number), "10.0.0.1", NOW + number)
            decisions.forgive("10.0.0.1")
        decisions.forgive("10.0.0.2")

    def test_forgotten_addresses_are_bounded(self) -> None:
        decisions = AccessDecisions()
        for number in range(2 * MOST_ADDRESSES):
            decisions.may_review(unknown(number), str(number), NOW)
        assert len(decisions._used) == MOST_ADDRESSES


def jwt(claims: bytes) -> str:
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


class TestExpiry:
    @pytest.mark.parametrize(
        ("claims", "expired"),
        [
            (b'{"exp": 1000000000, "iss": "x"}', True),
            (b'{"exp": 1000000000.5}', True),
            (b'{"exp": 1999998000}', False),  # within the leeway
            (b'{"exp": 2000001000}', False),
            (b'{"iss": "x"}', False),
            (b'{"exp": "soon"}', False),
            (b'{"exp": 1e999}', False),
            (b"[1]", False),
            (b"\xff", False),
            (b"[" * 100_000, False),
        ],
    )
    def test_only_a_date_long_past_says_that_a_token_has_expired(self, claims: bytes, *, expired: bool) -> None:
        assert is_expired(jwt(claims), 2e9) is expired

    @pytest.mark.parametrize("token", ["opaque", "a.b", "..", "a.!.c", "a." + "e" * 8001 + ".c"])
    def test_opaque_tokens_say_nothing(self, token: str) -> None:
        assert not is_expired(token, 2e9)


class TestSize:
    def test_cache_is_bounded_and_keeps_recently_used_decisions(self) -> None:
        decisions = allowed()
        for number in range(2 * MOST):
            decisions.reviewed(unknown(number), AccessDecision.UNKNOWN, NOW)
            assert decisions.in_force(KNOWN, NOW) is AccessDecision.ALLOWED
        assert len(decisions) == MOST
        assert decisions.in_force(unknown(0), NOW) is None
        assert decisions.in_force(unknown(2 * MOST - 1), NOW) is AccessDecision.UNKNOWN
