"""The kind of a storage is found from its ticks, soon and never wrongly."""

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.transcripts import of_states, shown
from watchslo.clock.storage_kind import (
    LEAST_TIMESTAMP,
    MOST_COUNTED,
    MOST_REFUSALS,
    PAUSES_SECONDS,
    RESYNC_SECONDS,
    KindDetector,
    Refusal,
    StorageSetting,
    kind_by_refusals,
    storage_of,
    unproven_storage,
)
from watchslo.model import Reading
from watchslo.snapshot import StorageKind

UNIX = 1_753_647_547_040_015_001  # a revision seen on GKE
TICKS_A_SECOND = 2


def kinds(revision_at: Callable[[float], float], seconds: float) -> list[StorageKind]:
    """Return the kind that is known after each tick."""
    detector, found = KindDetector(), []
    for number in range(round(seconds * TICKS_A_SECOND)):
        sent = number / TICKS_A_SECOND
        detector.observe(Reading("events", sent, sent + 0.002, int(revision_at(sent))))
        found.append(detector.kind)
    return found


@given(st.integers(1, MOST_COUNTED // 2), st.floats(0.0, 1e6))
def test_counter_is_a_sequence_from_the_first_tick(start: int, rate: float) -> None:
    assert set(kinds(lambda at: start + rate * at, 60)) == {StorageKind.SEQUENCE}


@given(st.floats(-1e9, 1e9), st.floats(-200e-6, 200e-6))
def test_timestamps_are_known_within_a_minute_and_stay(ahead: float, fast: float) -> None:
    found = kinds(lambda at: UNIX + 1e9 * (ahead / 1e3 + at * (1.0 + fast)), 900)
    assert StorageKind.SEQUENCE not in found
    assert set(found[22 * TICKS_A_SECOND :]) == {StorageKind.TIMESTAMP}


@pytest.mark.parametrize("every", [1.0, 4.0, 30.0])
def test_last_commits_are_timestamps_however_rare(every: float) -> None:
    """The first one may be old, and then the next one is further ahead."""
    found = kinds(lambda at: UNIX + 1e9 * every * (at // every) - (40e9 if at < every else 0), 600)
    assert StorageKind.SEQUENCE not in found
    assert set(found[round(60 + 2 * every) * TICKS_A_SECOND :]) == {StorageKind.TIMESTAMP}


@pytest.mark.parametrize("rate", [0.0, 1e3, 1e6, 2e9])
def test_large_revisions_that_do_not_grow_as_time_are_unknown(rate: float) -> None:
    assert set(kinds(lambda at: LEAST_TIMESTAMP + rate * at, 3600)) == {StorageKind.UNKNOWN}


def test_numbers_between_counters_and_timestamps_are_unknown() -> None:
    assert set(kinds(lambda at: MOST_COUNTED + 1 + at, 60)) == {StorageKind.UNKNOWN}


def test_storage_clock_that_is_set_ahead_is_proven_again() -> None:
    found = kinds(lambda at: UNIX + 1e9 * (at if at < 60 else at + 10), 180)
    assert found[59 * TICKS_A_SECOND] is StorageKind.TIMESTAMP
    assert found[60 * TICKS_A_SECOND] is StorageKind.UNKNOWN
    assert found[-1] is StorageKind.TIMESTAMP


STATED: tuple[StorageSetting, ...] = ("etcd", "kine", "kine-sqlite", "timestamp", "unproven", "auto")
VERSIONS = ("v1.36.3", "v1.31.4+k3s1", "v1.31.4+rke2r1")


@pytest.mark.parametrize("stated", STATED[:-1])
def test_stated_kind_is_not_detected(stated: StorageSetting) -> None:
    detector, kind = KindDetector(stated), storage_of(stated, StorageKind.UNKNOWN, None).kind
    for sent in range(60):
        detector.observe(Reading("events", sent, sent + 0.002, UNIX + sent * 10**9))
        detector.observe(Reading("events", sent, sent + 0.002, 5))
        assert detector.kind is kind


def test_storages_match_golden_file(golden: Callable[[str, str], None]) -> None:
    """By what is stated, what the apiserver reveals, how many servers there are, and the version."""
    states = {
        f"{stated}, found {found}": [
            *(
                f"{servers or 'unknown'} servers: {shown(storage_of(stated, found, servers))}"
                for servers in (None, 1, 2)
            ),
            *(f"{version}: {unproven_storage(version, stated, found) or 'proven'}" for version in VERSIONS),
        ]
        for stated in STATED
        for found in (StorageKind.UNKNOWN, StorageKind.SEQUENCE, StorageKind.KINE)
    }
    golden("storages.txt", of_states(states))


def refusals(
    answered: Callable[[float], float],
    noise: Callable[[int], float] = lambda _: 0.0,
    turn: Callable[[float], float] = lambda at: at,
) -> list[Refusal]:
    """Return refusals by a storage that answers a watch sent at some time at `answered` of that time.

    `noise` delays the arrival of each, and a watch is sent at the next `turn` that the limiter permits.
    """
    found, at = list[Refusal](), 0.0
    for number, pause in enumerate((0.0, *PAUSES_SECONDS)):
        sent = turn(at + pause)
        at = answered(sent) + noise(number)
        found.append(Refusal(sent, at))
    return found


def in_step(phase: float, period: float = RESYNC_SECONDS) -> Callable[[float], float]:
    """Return when etcd answers: at its next look."""
    return lambda sent: phase + period * math.ceil((sent - phase) / period)


@given(st.floats(0.0, 0.1), st.floats(0.0998, 0.103), st.floats(0.0, 0.02))
def test_refusals_in_step_are_those_of_etcd(phase: float, period: float, travel: float) -> None:
    """Its looks drift, because each begins a period after the end of the last one."""
    answered = in_step(phase, period)
    assert kind_by_refusals(refusals(lambda sent: answered(sent + travel) + travel)) is StorageKind.SEQUENCE


@given(st.floats(0.0, 1.0), st.randoms(use_true_random=False))
def test_refusals_as_long_after_their_requests_are_those_of_kine(database: float, random: Random) -> None:
    found = refusals(lambda sent: sent + database, lambda _: random.uniform(0.0, 0.01))
    assert kind_by_refusals(found) is StorageKind.KINE


@given(st.floats(0.0, 0.1), st.sets(st.integers(0, len(PAUSES_SECONDS)), max_size=1), st.floats(0.0, 1.0))
def test_one_late_arrival_hides_nothing(phase: float, late: set[int], by: float) -> None:
    def noise(number: int) -> float:
        return by * (number in late)

    assert kind_by_refusals(refusals(in_step(phase), noise)) is StorageKind.SEQUENCE
    assert kind_by_refusals(refusals(lambda sent: sent + 0.005, noise)) is StorageKind.KINE


@given(st.floats(0.0, 0.1), st.floats(0.0, 0.2), st.integers())
def test_noise_makes_no_kine_of_etcd_and_no_etcd_of_kine(noise: float, database: float, seed: int) -> None:
    random = Random(seed)

    def late(_: int) -> float:
        return random.uniform(0.0, noise)

    assert kind_by_refusals(refusals(in_step(0.03), late)) is not StorageKind.KINE
    assert kind_by_refusals(refusals(lambda sent: sent + database, late)) is not StorageKind.SEQUENCE


@pytest.mark.parametrize("answered", [in_step(0.03), lambda sent: sent + 0.005])
def test_watches_that_a_limiter_sends_in_step_prove_nothing(answered: Callable[[float], float]) -> None:
    """Ten requests a second are as far from each other as the looks of etcd."""
    assert kind_by_refusals(refusals(answered, turn=in_step(0.0))) is StorageKind.UNKNOWN


@given(st.integers())
def test_etcd_members_that_answer_in_turn_are_no_kine(seed: int) -> None:
    """Each has a clock of its own."""
    random = Random(seed)
    members = [in_step(phase) for phase in (0.0, 0.04, 0.07)]

    def answered(sent: float) -> float:
        return random.choice(members)(sent)

    assert kind_by_refusals(refusals(answered)) is not StorageKind.KINE


def test_few_refusals_prove_nothing() -> None:
    assert kind_by_refusals([]) is StorageKind.UNKNOWN
    assert kind_by_refusals(refusals(in_step(0.03))[:MOST_REFUSALS]) is StorageKind.UNKNOWN
    assert kind_by_refusals(refusals(lambda sent: sent)[:MOST_REFUSALS]) is StorageKind.UNKNOWN
