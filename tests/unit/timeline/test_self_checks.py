from dataclasses import replace

import pytest

from tests.unit.serve import readings
from watchslo.snapshot import HistogramReading, Snapshot, StorageKind, WitnessReading
from watchslo.timeline.self_checks import MINUTE_POINTS, QUESTION, SelfCheck, SelfChecks, summary
from watchslo.timeline.verdict import Level

EDGES = (0.005, 0.025, 0.15)
SNAPSHOT = replace(readings.SNAPSHOT, domains=(readings.DOMAIN,), streams=(readings.TAIL,))


def lag(on_time: int, late: int) -> HistogramReading:
    return HistogramReading(EDGES, (on_time, on_time, on_time, on_time + late), 0.0)


def checked(*snapshots: Snapshot) -> dict[str, SelfCheck]:
    """What is found in the last of them."""
    trust = SelfChecks()
    for snapshot in snapshots:
        found = trust.checks(snapshot)
    return {check.name: check for check in found}


def monitor(**changes: object) -> Snapshot:
    return replace(SNAPSHOT, monitor=replace(readings.MONITOR, **changes))  # type: ignore[arg-type]


def unmeasured(measured: int, tainted: int) -> Snapshot:
    timespan = HistogramReading((1.0,), (measured, measured), 0.0)
    track = replace(readings.TRACK, timespan=timespan, unmeasured={"tainted": tainted, "initial": 10_000})
    return replace(SNAPSHOT, streams=(replace(readings.TAIL, track=track),))


class TestClock:
    def test_clock_check_names_apiservers_with_failed_ticks(self) -> None:
        assert checked(SNAPSHOT)["Clock"] == SelfCheck(
            "Clock",
            Level.UNKNOWN,
            "It ticks, round trip 1.7 ms; commit interval 512 ms, but ticks fail through 10.0.0.1:6443.",
        )

    def test_clock_check_passes_while_it_ticks(self) -> None:
        sound = replace(readings.DOMAIN, tickers=(readings.TICKER,), resolution=None, interval=None)
        assert checked(replace(SNAPSHOT, domains=(sound,)))["Clock"].text == "It ticks."

    def test_clock_check_doubts_a_clock_with_slow_ticks(self) -> None:
        slow = replace(readings.DOMAIN, tickers=(readings.TICKER,), resolution=0.304)
        assert checked(replace(SNAPSHOT, domains=(slow,)))["Clock"] == SelfCheck(
            "Clock",
            Level.UNKNOWN,
            "It ticks, round trip 304 ms; commit interval 512 ms; latencies below the round trip look alike.",
        )

    def test_clock_check_fails_if_it_stopped(self) -> None:
        ticker = replace(readings.TICKER, answered_ago=60.0, failure="No answer came.")
        found = checked(replace(SNAPSHOT, domains=(replace(readings.DOMAIN, tickers=(ticker,)),)))["Clock"]
        assert found == SelfCheck("Clock", Level.BAD, "It has not ticked since 22:12 UTC. No answer came.")

    def test_clock_check_does_not_blame_this_process_if_no_apiserver_answers(self) -> None:
        ticker = replace(readings.TICKER, answered_ago=120.0, failure="No answer.")
        silent = replace(readings.SERVICE, name=ticker.apiserver, unresponsive_for=120.0)
        domains = (replace(readings.DOMAIN, tickers=(ticker,)),)
        assert checked(replace(SNAPSHOT, domains=domains, apiservers=(silent,)))["Clock"] == SelfCheck(
            "Clock", Level.UNKNOWN, "It does not tick, because none of its apiservers answers."
        )
        answering = replace(silent, unresponsive_for=None)
        assert checked(replace(SNAPSHOT, domains=domains, apiservers=(answering,)))["Clock"].level is Level.BAD

    def test_clock_check_has_the_domain_in_its_name_if_there_are_two(self) -> None:
        found = checked(replace(SNAPSHOT, domains=(readings.DOMAIN, readings.BLIND)))
        assert found["Clock of jobs.batch"].text == "It has not ticked yet."


class TestWitnesses:
    def test_witness_check_passes_if_all_announced_apiservers_are_ticked_on(self) -> None:
        found = checked(monitor(witnesses=WitnessReading(2, 2, None)))["Witnesses"]
        text = "2 more apiservers are announced; they are ticked on and not watched."
        assert found == SelfCheck("Witnesses", Level.GOOD, text)

    def test_witness_check_says_what_is_lost_without_any(self) -> None:
        found = checked(monitor(witnesses=WitnessReading(2, 0, "No answer came.")))["Witnesses"]
        assert found == SelfCheck(
            "Witnesses",
            Level.UNKNOWN,
            "0 of 2 other announced apiservers can be reached: a delay between etcd and a watched apiserver may be "
            "invisible, and creation timestamps are not measured. No answer came.",
        )

    def test_witness_check_says_what_is_lost_without_some(self) -> None:
        found = checked(monitor(witnesses=WitnessReading(2, 1, "No answer came.")))["Witnesses"]
        assert found.text == (
            "1 of 2 other announced apiservers can be reached: creation timestamps are not measured. No answer came."
        )

    def test_witness_check_says_that_the_addresses_are_unknown(self) -> None:
        found = checked(monitor(witnesses=WitnessReading(0, 0, "It is forbidden.")))["Witnesses"]
        assert found.text == (
            "The announced apiservers cannot be listed: a delay between etcd and a watched apiserver may be "
            "invisible, and creation timestamps are not measured. It is forbidden."
        )

    @pytest.mark.parametrize("witnesses", [None, WitnessReading(0, 0, None)])
    def test_witnesses_are_not_checked_without_other_apiservers(self, witnesses: WitnessReading | None) -> None:
        assert "Witnesses" not in checked(monitor(witnesses=witnesses))


class TestLag:
    def test_lag_check_covers_the_last_minute(self) -> None:
        found = checked(monitor(loop_lag=lag(0, 500)), monitor(loop_lag=lag(1200, 500)))["Own lag"]
        assert found.text == "100.0% of the last heartbeats were at most 25 ms late: our own lag adds at most that."
        assert found.level is Level.GOOD

    def test_lag_check_passes_with_small_lag(self) -> None:
        assert checked(monitor(loop_lag=lag(0, 0)), monitor(loop_lag=lag(98, 2)))["Own lag"].level is Level.UNKNOWN

    def test_lag_check_fails_if_events_were_tainted(self) -> None:
        found = checked(monitor(loop_lag=lag(0, 0)), monitor(loop_lag=lag(98, 2), tainted_seconds=3.5))["Own lag"]
        assert found.level is Level.BAD
        assert "for 3 s of the last minute watchslo could not keep up" in found.text

    def test_lag_check_is_unknown_at_first(self) -> None:
        assert checked(SNAPSHOT)["Own lag"].level is Level.UNKNOWN


class TestMeasuredEvents:
    def test_coverage_check_counts_measurable_events(self) -> None:
        found = checked(unmeasured(0, 0), unmeasured(1970, 30))["Measured events"]
        assert found.text == "98.5% of 2,000 events of the last minute were measured."
        assert found.level is Level.GOOD
        assert checked(unmeasured(0, 0), unmeasured(94, 6))["Measured events"].level is Level.BAD

    def test_coverage_check_without_events_is_unknown(self) -> None:
        assert checked(unmeasured(5, 5), unmeasured(5, 5))["Measured events"].level is Level.UNKNOWN

    def test_coverage_check_ignores_watches_without_domain(self) -> None:
        pending = replace(SNAPSHOT, streams=(replace(readings.TAIL, membership="pending"),))
        assert checked(pending, unmeasured(0, 900))["Measured events"].text == "Not known yet."
        soon = checked(pending, unmeasured(0, 900), unmeasured(50, 900))["Measured events"]
        assert soon.text == "100.0% of 50 events of the last minute were measured.", "not only a minute after the start"
        assert checked(pending, *[unmeasured(0, 900)] * MINUTE_POINTS, unmeasured(100, 900))[
            "Measured events"
        ].text == ("100.0% of 100 events of the last minute were measured.")


def test_audit_check_without_audits_is_unknown() -> None:
    assert checked(SNAPSHOT)["Audits"].level is Level.GOOD
    assert checked(monitor(stall_detection=None))["Audits"].level is Level.UNKNOWN


def test_configuration_check_fails_if_file_was_refused() -> None:
    assert checked(SNAPSHOT)["Configuration"].text == "In force since 2023-11-14 19:26:40 UTC."
    assert checked(monitor(reload_succeeded=False))["Configuration"].level is Level.BAD


@pytest.mark.parametrize(
    ("kind", "level", "said"),
    [
        (StorageKind.SEQUENCE, Level.GOOD, "counts"),
        (StorageKind.TIMESTAMP, Level.GOOD, "commit times"),
        (StorageKind.KINE, Level.GOOD, "kine"),
        (StorageKind.UNKNOWN, Level.UNKNOWN, "neither"),
    ],
)
def test_storage_has_a_check(kind: StorageKind, level: Level, said: str) -> None:
    check = checked(replace(SNAPSHOT, domains=(replace(SNAPSHOT.domains[0], kind=kind),)))["Storage"]
    assert check.level is level
    assert said in check.text


def test_polled_storage_and_each_of_several_have_a_check() -> None:
    domain = SNAPSHOT.domains[0]
    polled = replace(domain, name="leases", tickers=tuple(replace(one, polls=True) for one in domain.tickers))
    unread = replace(domain, name="pods", revision=None)
    found = checked(replace(SNAPSHOT, domains=(domain, polled, unread)))
    assert (found[f"Storage of {domain.name}"].level, found["Storage of leases"].level) == (Level.GOOD, Level.UNKNOWN)
    assert "by a poll" in found["Storage of leases"].text
    assert "Storage of pods" not in found


def test_unproven_revisions_have_a_check() -> None:
    assert checked(SNAPSHOT)["Revisions of 10.0.0.1:6443"].text == "Unproven: its storage is kine, not etcd"


class TestSummary:
    GOOD, UNKNOWN, BAD = (SelfCheck(level.name.title(), level, "…") for level in (Level.GOOD, Level.UNKNOWN, Level.BAD))

    def test_summary_passes_if_all_checks_pass(self) -> None:
        assert summary([self.GOOD], measuring=True) == SelfCheck(QUESTION, Level.GOOD, "Yes: all self checks pass.")

    def test_summary_names_unknown_checks(self) -> None:
        found = summary([self.GOOD, self.UNKNOWN], measuring=True)
        assert (found.level, found.text) == (Level.UNKNOWN, "Mostly: check Unknown.")

    def test_summary_trusts_no_part_of_nothing(self) -> None:
        found = summary([self.GOOD, self.UNKNOWN], measuring=False)
        assert (found.level, found.text) == (Level.UNKNOWN, "Cannot tell: nothing is measured.")

    def test_summary_names_failed_checks_first(self) -> None:
        found = summary([self.UNKNOWN, self.BAD, self.GOOD, self.BAD], measuring=False)
        assert (found.level, found.text) == (Level.BAD, "No: watchslo itself has a problem: Bad, Bad.")
