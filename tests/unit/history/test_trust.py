from dataclasses import replace

from tests.unit.serve import readings
from watchslo.history.headline import Level
from watchslo.history.trust import MINUTE_POINTS, QUESTION, Check, Trust, summary
from watchslo.snapshot import HistogramReading, Snapshot

EDGES = (0.005, 0.025, 0.15)
SNAPSHOT = replace(readings.SNAPSHOT, domains=(readings.DOMAIN,), streams=(readings.TAIL,))


def lag(on_time: int, late: int) -> HistogramReading:
    return HistogramReading(EDGES, (on_time, on_time, on_time, on_time + late), 0.0)


def checked(*snapshots: Snapshot) -> dict[str, Check]:
    """What is found in the last of them."""
    trust = Trust()
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
    def test_ticks_through_some(self) -> None:
        assert checked(SNAPSHOT)["Clock"] == Check(
            "Clock",
            Level.UNKNOWN,
            "It ticks, an answer takes 1.7 ms; commits are dated to 512 ms, but not through 10.0.0.1:6443.",
        )

    def test_ticks(self) -> None:
        sound = replace(readings.DOMAIN, tickers=(readings.TICKER,), median_round_trip=None, interval=None)
        assert checked(replace(SNAPSHOT, domains=(sound,)))["Clock"].text == "It ticks."

    def test_stands_still(self) -> None:
        ticker = replace(readings.TICKER, answered_ago=60.0, failure="No answer came.")
        found = checked(replace(SNAPSHOT, domains=(replace(readings.DOMAIN, tickers=(ticker,)),)))["Clock"]
        assert found == Check("Clock", Level.BAD, "It stands still since 22:12 UTC. No answer came.")

    def test_has_a_name_where_there_are_two(self) -> None:
        found = checked(replace(SNAPSHOT, domains=(readings.DOMAIN, readings.BLIND)))
        assert found["Clock of jobs.batch"].text == "It has not ticked yet."


class TestLag:
    def test_is_that_of_the_last_minute(self) -> None:
        found = checked(monitor(loop_lag=lag(0, 500)), monitor(loop_lag=lag(1200, 500)))["Own lag"]
        assert found.text == "100.0% of the last heartbeats came within 25 ms: what is late here is not us."
        assert found.level is Level.GOOD

    def test_is_small(self) -> None:
        assert checked(monitor(loop_lag=lag(0, 0)), monitor(loop_lag=lag(98, 2)))["Own lag"].level is Level.UNKNOWN

    def test_is_so_large_that_something_was_left_out(self) -> None:
        found = checked(monitor(loop_lag=lag(0, 0)), monitor(loop_lag=lag(98, 2), tainted_seconds=3.5))["Own lag"]
        assert found.level is Level.BAD
        assert "for 3 s of the last minute it could not keep up" in found.text

    def test_is_not_known_at_first(self) -> None:
        assert checked(SNAPSHOT)["Own lag"].level is Level.UNKNOWN


class TestCoverage:
    def test_counts_what_could_have_been_measured(self) -> None:
        found = checked(unmeasured(0, 0), unmeasured(1970, 30))["Coverage"]
        assert found.text == "98.5% of 2,000 events of the last minute could be measured."
        assert found.level is Level.GOOD
        assert checked(unmeasured(0, 0), unmeasured(94, 6))["Coverage"].level is Level.BAD

    def test_of_nothing_is_unknown(self) -> None:
        assert checked(unmeasured(5, 5), unmeasured(5, 5))["Coverage"].level is Level.UNKNOWN

    def test_waits_for_a_watch_to_have_a_clock(self) -> None:
        pending = replace(SNAPSHOT, streams=(replace(readings.TAIL, membership="pending"),))
        assert checked(pending, unmeasured(0, 900))["Coverage"].text == "Not known yet."
        assert checked(pending, *[unmeasured(0, 900)] * MINUTE_POINTS, unmeasured(100, 900))["Coverage"].text == (
            "100.0% of 100 events of the last minute could be measured."
        )


def test_silence_is_told_apart_only_by_audits() -> None:
    assert checked(SNAPSHOT)["Silence"].level is Level.GOOD
    assert checked(monitor(stall_detection=None))["Silence"].level is Level.UNKNOWN


def test_a_refused_configuration_is_said() -> None:
    assert checked(SNAPSHOT)["Configuration"].text == "In force since 2023-11-14 19:26:40 UTC."
    assert checked(monitor(reload_succeeded=False))["Configuration"].level is Level.BAD


def test_unproven_revisions_are_said() -> None:
    assert checked(SNAPSHOT)["Revisions of 10.0.0.1:6443"].text == "Unproven: its storage is kine, not etcd"


class TestSummary:
    GOOD, UNKNOWN, BAD = (Check(level.name.title(), level, "…") for level in (Level.GOOD, Level.UNKNOWN, Level.BAD))

    def test_all_is_well(self) -> None:
        assert summary([self.GOOD]) == Check(QUESTION, Level.GOOD, "Yes, watchslo itself is well.")

    def test_something_is_not_known(self) -> None:
        found = summary([self.GOOD, self.UNKNOWN])
        assert (found.level, found.text) == (Level.UNKNOWN, "Yes, but not all is known: Unknown.")

    def test_what_failed_goes_first(self) -> None:
        found = summary([self.UNKNOWN, self.BAD, self.GOOD, self.BAD])
        assert (found.level, found.text) == (Level.BAD, "Look at us first: Bad, Bad.")
