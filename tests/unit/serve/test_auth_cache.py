"""How long access decisions hold, and which clients may cause reviews."""

from watchslo.serve.auth_cache import (
    ALLOWED_SECONDS,
    BURST,
    DENIED_SECONDS,
    MOST,
    RETRY_SECONDS,
    REVIEWS_PER_SECOND,
    TRUSTED_SECONDS,
    AccessDecision,
    AccessDecisions,
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
    while decisions.may_review(unknown(number), now):
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
        assert decisions.may_review(KNOWN, NOW + ALLOWED_SECONDS)

    def test_client_no_longer_trusted_is_limited(self) -> None:
        decisions = allowed()
        late = NOW + TRUSTED_SECONDS
        exhausted(decisions, late)
        assert not decisions.may_review(KNOWN, late)

    def test_refused_client_is_limited(self) -> None:
        decisions = AccessDecisions()
        decisions.reviewed(KNOWN, AccessDecision.FORBIDDEN, NOW)
        exhausted(decisions, NOW)
        assert not decisions.may_review(KNOWN, NOW)


class TestSize:
    def test_cache_is_bounded_and_keeps_recently_used_decisions(self) -> None:
        decisions = allowed()
        for number in range(2 * MOST):
            decisions.reviewed(unknown(number), AccessDecision.UNKNOWN, NOW)
            assert decisions.in_force(KNOWN, NOW) is AccessDecision.ALLOWED
        assert len(decisions) == MOST
        assert decisions.in_force(unknown(0), NOW) is None
        assert decisions.in_force(unknown(2 * MOST - 1), NOW) is AccessDecision.UNKNOWN
