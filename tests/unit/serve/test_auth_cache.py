"""How long access decisions hold, and which clients may cause reviews."""

import base64

import pytest

from watchslo.serve.auth_cache import (
    ALLOWED_SECONDS,
    BURST,
    DENIED_SECONDS,
    MOST,
    MOST_ADDRESSES,
    RETRY_SECONDS,
    REVIEWS_PER_SECOND,
    TRUSTED_SECONDS,
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


class TestInForce:
    def test_empty_cache_has_no_decision(self) -> None:
        assert AccessDecisions().in_force(KNOWN, NOW) is None

    def test_allowed_holds_for_allowed_seconds(self) -> None:
        decisions = allowed()
        assert decisions.in_force(KNOWN, NOW + ALLOWED_SECONDS - 0.1) is AccessDecision.ALLOWED
        assert decisions.in_force(KNOWN, NOW + ALLOWED_SECONDS) is None

    def test_refusal_holds_for_denied_seconds(self) -> None:
        for verdict in (AccessDecision.UNKNOWN, AccessDecision.FORBIDDEN):
            decisions = AccessDecisions()
            decisions.reviewed(KNOWN, verdict, NOW)
            assert decisions.in_force(KNOWN, NOW + DENIED_SECONDS - 0.1) is verdict
            assert decisions.in_force(KNOWN, NOW + DENIED_SECONDS) is None

    def test_newest_review_replaces_the_previous_one(self) -> None:
        decisions = allowed()
        decisions.reviewed(KNOWN, AccessDecision.FORBIDDEN, NOW + 1)
        assert decisions.in_force(KNOWN, NOW + 2) is AccessDecision.FORBIDDEN


class TestTrust:
    def test_allowed_client_stays_allowed_while_reviews_fail(self) -> None:
        decisions = allowed()
        later = NOW + ALLOWED_SECONDS
        assert decisions.trusted(KNOWN, later)
        assert decisions.in_force(KNOWN, later + RETRY_SECONDS - 0.1) is AccessDecision.ALLOWED
        assert decisions.in_force(KNOWN, later + RETRY_SECONDS) is None

    def test_trust_ends_trusted_seconds_after_the_last_review(self) -> None:
        decisions = allowed()
        assert decisions.trusted(KNOWN, NOW + TRUSTED_SECONDS - 1)
        assert decisions.in_force(KNOWN, NOW + TRUSTED_SECONDS - 0.1) is AccessDecision.ALLOWED
        assert decisions.in_force(KNOWN, NOW + TRUSTED_SECONDS) is None
        assert not decisions.trusted(KNOWN, NOW + TRUSTED_SECONDS)

    def test_unknown_and_refused_clients_are_not_trusted(self) -> None:
        decisions = allowed()
        assert not decisions.trusted(unknown(1), NOW)
        decisions.reviewed(KNOWN, AccessDecision.FORBIDDEN, NOW + 1)
        assert not decisions.trusted(KNOWN, NOW + 2)
        decisions.reviewed(KNOWN, AccessDecision.UNKNOWN, NOW + 3)
        assert not decisions.trusted(KNOWN, NOW + 4)


class TestUnknownClients:
    def test_unknown_clients_are_limited_in_reviews(self) -> None:
        decisions = AccessDecisions()
        assert exhausted(decisions, NOW) == BURST
        assert exhausted(decisions, NOW + 2 / REVIEWS_PER_SECOND) == 2
        assert exhausted(decisions, NOW + 1e6) == BURST

    def test_unknown_clients_do_not_block_trusted_clients(self) -> None:
        decisions = allowed()
        exhausted(decisions, NOW)
        assert decisions.may_review(KNOWN, "10.0.1.1", NOW + ALLOWED_SECONDS)

    def test_client_no_longer_trusted_is_limited(self) -> None:
        decisions = allowed()
        late = NOW + TRUSTED_SECONDS
        exhausted(decisions, late)
        assert not decisions.may_review(KNOWN, "10.0.1.1", late)

    def test_refused_client_is_limited(self) -> None:
        decisions = AccessDecisions()
        decisions.reviewed(KNOWN, AccessDecision.FORBIDDEN, NOW)
        exhausted(decisions, NOW)
        assert not decisions.may_review(KNOWN, "10.0.1.1", NOW)

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
