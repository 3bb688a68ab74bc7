"""How long verdicts hold, and who may cause reviews."""

from watchslo.serve.verdicts import (
    ALLOWED_SECONDS,
    BURST,
    DENIED_SECONDS,
    MOST,
    RETRY_SECONDS,
    REVIEWS_PER_SECOND,
    TRUSTED_SECONDS,
    Verdict,
    Verdicts,
    key_of,
)

NOW = 1000.0
KNOWN = key_of("token", "/metrics")


def stranger(number: int) -> bytes:
    return key_of(f"stranger {number}", "/metrics")


def allowed(at: float = NOW) -> Verdicts:
    verdicts = Verdicts()
    verdicts.reviewed(KNOWN, Verdict.ALLOWED, at)
    return verdicts


def exhausted(verdicts: Verdicts, now: float) -> int:
    """How many strangers are reviewed at `now`, until no other one is."""
    number = 0
    while verdicts.may_review(stranger(number), now):
        number += 1
    return number


class TestKey:
    def test_holds_no_token(self) -> None:
        assert b"token" not in KNOWN
        assert len(key_of("x" * 8000, "/" * 8000)) == len(KNOWN)

    def test_is_of_one_token_and_one_path(self) -> None:
        assert len({KNOWN, key_of("token", "/"), key_of("other", "/metrics"), key_of("token/", "metrics")}) == 4


class TestInForce:
    def test_nothing_is_known_at_first(self) -> None:
        assert Verdicts().in_force(KNOWN, NOW) is None

    def test_an_allowance_holds_for_a_minute(self) -> None:
        verdicts = allowed()
        assert verdicts.in_force(KNOWN, NOW + ALLOWED_SECONDS - 0.1) is Verdict.ALLOWED
        assert verdicts.in_force(KNOWN, NOW + ALLOWED_SECONDS) is None

    def test_a_refusal_holds_for_seconds(self) -> None:
        for verdict in (Verdict.UNKNOWN, Verdict.FORBIDDEN):
            verdicts = Verdicts()
            verdicts.reviewed(KNOWN, verdict, NOW)
            assert verdicts.in_force(KNOWN, NOW + DENIED_SECONDS - 0.1) is verdict
            assert verdicts.in_force(KNOWN, NOW + DENIED_SECONDS) is None

    def test_the_newest_counts(self) -> None:
        verdicts = allowed()
        verdicts.reviewed(KNOWN, Verdict.FORBIDDEN, NOW + 1)
        assert verdicts.in_force(KNOWN, NOW + 2) is Verdict.FORBIDDEN


class TestTrust:
    def test_who_was_allowed_stays_so_while_reviews_fail(self) -> None:
        verdicts = allowed()
        later = NOW + ALLOWED_SECONDS
        assert verdicts.trusted(KNOWN, later)
        assert verdicts.in_force(KNOWN, later + RETRY_SECONDS - 0.1) is Verdict.ALLOWED
        assert verdicts.in_force(KNOWN, later + RETRY_SECONDS) is None

    def test_ends_a_quarter_of_an_hour_after_the_last_review(self) -> None:
        verdicts = allowed()
        assert verdicts.trusted(KNOWN, NOW + TRUSTED_SECONDS - 1)
        assert verdicts.in_force(KNOWN, NOW + TRUSTED_SECONDS - 0.1) is Verdict.ALLOWED
        assert verdicts.in_force(KNOWN, NOW + TRUSTED_SECONDS) is None
        assert not verdicts.trusted(KNOWN, NOW + TRUSTED_SECONDS)

    def test_nobody_else_is_trusted(self) -> None:
        verdicts = allowed()
        assert not verdicts.trusted(stranger(1), NOW)
        verdicts.reviewed(KNOWN, Verdict.FORBIDDEN, NOW + 1)
        assert not verdicts.trusted(KNOWN, NOW + 2)
        verdicts.reviewed(KNOWN, Verdict.UNKNOWN, NOW + 3)
        assert not verdicts.trusted(KNOWN, NOW + 4)


class TestStrangers:
    def test_cause_few_reviews(self) -> None:
        verdicts = Verdicts()
        assert exhausted(verdicts, NOW) == BURST
        assert exhausted(verdicts, NOW + 2 / REVIEWS_PER_SECOND) == 2
        assert exhausted(verdicts, NOW + 1e6) == BURST

    def test_do_not_keep_out_who_was_allowed(self) -> None:
        verdicts = allowed()
        exhausted(verdicts, NOW)
        assert verdicts.may_review(KNOWN, NOW + ALLOWED_SECONDS)

    def test_who_is_trusted_no_more_is_a_stranger(self) -> None:
        verdicts = allowed()
        late = NOW + TRUSTED_SECONDS
        exhausted(verdicts, late)
        assert not verdicts.may_review(KNOWN, late)

    def test_who_was_refused_is_one(self) -> None:
        verdicts = Verdicts()
        verdicts.reviewed(KNOWN, Verdict.FORBIDDEN, NOW)
        exhausted(verdicts, NOW)
        assert not verdicts.may_review(KNOWN, NOW)


class TestMemory:
    def test_is_bounded_and_keeps_who_asks(self) -> None:
        verdicts = allowed()
        for number in range(2 * MOST):
            verdicts.reviewed(stranger(number), Verdict.UNKNOWN, NOW)
            assert verdicts.in_force(KNOWN, NOW) is Verdict.ALLOWED
        assert len(verdicts) == MOST
        assert verdicts.in_force(stranger(0), NOW) is None
        assert verdicts.in_force(stranger(2 * MOST - 1), NOW) is Verdict.UNKNOWN
