from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.serve import readings
from tests.unit.timeline.test_condition import FEW, LATE, SILENT, UNDECIDED, WITHIN, stream
from watchslo.snapshot import DomainReading, Snapshot, StreamReading
from watchslo.timeline.condition import Judge
from watchslo.timeline.headline import Headline, Level, headline

NOW = readings.SNAPSHOT.at_wall
IDLE = readings.changed(SILENT, audit={"result": "idle"})
STALLED = readings.changed(SILENT, audit={"stalled_for": 33.5})
CLOSED = replace(WITHIN, up=False)


def below(upper: float) -> StreamReading:
    """Return a watch whose estimate is below the round trip of the ticks, with this upper bound."""
    quantiles = [replace(one, upper=upper, resolved=False) for one in WITHIN.track.windows[0].quantiles]
    return replace(WITHIN, track=readings.judged(100, *quantiles))


def say(*streams: StreamReading, after: float = 0.0, **changes: object) -> Headline:
    """What is said of these watches, each by another name, `after` seconds in which they were so."""
    named = tuple(replace(one, watch=f"w{number}") for number, one in enumerate(streams, 1))
    made: Snapshot = replace(readings.SNAPSHOT, streams=named, at_wall=NOW + after, **changes)  # type: ignore[arg-type]
    judges = [Judge() for _ in named]
    for judge, one in zip(judges, named, strict=True):
        judge.condition(one, NOW)
    return headline(made, [judge.condition(one, NOW + after) for judge, one in zip(judges, named, strict=True)])


def silent(ago: float | None, failure: str | None) -> tuple[DomainReading, ...]:
    ticker = replace(readings.TICKER, answered_ago=ago, failure=failure)
    return (replace(readings.DOMAIN, tickers=(ticker,)),)


@pytest.mark.parametrize(
    ("streams", "level", "text", "figures"),
    [
        ([WITHIN], Level.GOOD, "w1 is within 1 s.", ""),
        ([WITHIN, WITHIN], Level.GOOD, "All 2 watches are within 1 s.", ""),
        ([WITHIN, IDLE, FEW, SILENT], Level.GOOD, "No watch is late.",
         "1 within 1 s, 1 idle, 2 not judged"),
        ([WITHIN, UNDECIDED], Level.UNKNOWN, "No watch is proven late, but w2 cannot be judged.",
         "w2: P99 bounds 200 ms to 1.4 s, threshold 1 s"),
        ([UNDECIDED], Level.UNKNOWN, "No watch is proven late, but w1 cannot be judged.",
         "w1: P99 bounds 200 ms to 1.4 s, threshold 1 s"),
        ([LATE, UNDECIDED], Level.BAD, "w1: late since 22:13 UTC",
         "P99 2.3 s (bounds 1.5 s to 3 s), threshold 1 s, 100 events"),
        ([IDLE, IDLE], Level.GOOD, "All 2 watches are idle (proven by audits).", ""),
        ([IDLE, FEW], Level.UNKNOWN, "Cannot tell: no watch has had enough events lately.", ""),
        ([], Level.UNKNOWN, "Cannot tell: no watch has had enough events lately.", ""),
        ([WITHIN, LATE], Level.BAD, "w2: late since 22:13 UTC",
         "P99 2.3 s (bounds 1.5 s to 3 s), threshold 1 s, 100 events"),
        ([LATE, LATE, WITHIN], Level.BAD, "w1 and w2: late since 22:13 UTC",
         ("w1: P99 2.3 s (bounds 1.5 s to 3 s), threshold 1 s, 100 events; "
          "w2: P99 2.3 s (bounds 1.5 s to 3 s), threshold 1 s, 100 events")),
        ([STALLED, WITHIN], Level.BAD, "w1: no events delivered since 22:13 UTC",
         "oldest undelivered event: 33.5 s ago"),
        ([STALLED, LATE], Level.BAD, "w2: late since 22:13 UTC; w1: no events delivered since 22:13 UTC",
         "P99 2.3 s (bounds 1.5 s to 3 s), threshold 1 s, 100 events; oldest undelivered event: 33.5 s ago"),
    ],
)  # fmt: skip
def test_headline_names_late_watches_and_since_when(
    streams: Sequence[StreamReading], level: Level, text: str, figures: str
) -> None:
    said = say(*streams)
    assert (said.level, said.text, said.figures) == (level, text, figures)


def test_headline_counts_many_watches() -> None:
    assert say(*[LATE] * 4, WITHIN).text == "4 of 5 watches: late since 22:13 UTC"


@pytest.mark.parametrize(("seconds", "figures"), [(59.0, "P99 2.3 s"), (60.0, "for 1 min; P99 2.3 s")])
def test_headline_says_for_how_long(seconds: float, figures: str) -> None:
    """An on-call engineer should not have to compute with UTC."""
    assert say(LATE, after=seconds).figures.startswith(figures)


def test_headline_since_belongs_to_the_named_watch() -> None:
    first, second = Judge(), Judge()
    first.condition(LATE, NOW)
    said = headline(
        replace(readings.SNAPSHOT, streams=(LATE, LATE), at_wall=NOW + 300),
        [first.condition(LATE, NOW + 59), replace(second.condition(LATE, NOW + 300), since_wall=NOW + 240)],
    )
    assert said.text == "pods and pods: late, the first since 22:13 UTC"


def test_headline_figures_are_those_of_the_worst() -> None:
    worst = stream(1.5, 2.9, 3.0)
    assert say(LATE, LATE, LATE, worst).figures.startswith("w4: P99 2.9 s")


def test_headline_omits_differing_thresholds() -> None:
    other = replace(WITHIN, track=replace(WITHIN.track, objective=replace(WITHIN.track.objective, threshold=2.0)))
    assert say(WITHIN, other).text == "All 2 watches are within their thresholds."


def test_headline_ignores_a_watch_that_reopens() -> None:
    assert say(CLOSED, WITHIN, after=5).level is Level.GOOD
    said = say(CLOSED, WITHIN, after=15)
    assert said.text == "1 of 2 watches cannot be kept open since 22:13 UTC"
    assert said.figures == "w1. the connection was reset"
    assert say(readings.changed(CLOSED, session={"last_failure": None}), after=15).figures == "w1."


class TestSlowTicks:
    """A latency below the round trip of the ticks is not a measurement, however prompt it seems."""

    def say(self, *streams: StreamReading, resolution: float | None = 0.304) -> Headline:
        return say(*streams, domains=(replace(readings.DOMAIN, resolution=resolution),))

    def test_headline_says_up_to_where_latencies_look_alike(self) -> None:
        said = self.say(below(0.9), IDLE)
        assert said.text == "No watch is late, but short latencies cannot be distinguished."
        assert said.figures == "ticks take 304 ms, and latencies below that look alike; 1 within 1 s, 1 idle"
        assert said.level is Level.GOOD, "the bounds prove it"
        assert self.say(below(0.9), below(0.9)).text == (
            "All 2 watches are within 1 s, but short latencies cannot be distinguished."
        )

    def test_headline_is_unknown_if_another_watch_is_undecided(self) -> None:
        said = self.say(below(0.9), below(1.4))
        assert said.text == "No watch is proven late, but w2 cannot be judged."
        assert said.level is Level.UNKNOWN

    @pytest.mark.parametrize("resolution", [None, 0.149])
    def test_headline_ignores_ticks_that_are_prompt(self, resolution: float | None) -> None:
        assert self.say(below(0.9), resolution=resolution).text == "w1 is within 1 s."

    def test_headline_ignores_slow_ticks_of_other_clocks_and_resolved_figures(self) -> None:
        assert self.say(WITHIN).text == "w1 is within 1 s."
        assert self.say(replace(below(0.9), domain="other")).text == "w1 is within 1 s."

    def test_headline_names_late_watches_all_the_same(self) -> None:
        assert self.say(below(0.9), LATE).text == "w2: late since 22:13 UTC"


class TestWhatCannotBeTold:
    def test_headline_paused_is_unknown(self) -> None:
        assert say(WITHIN, monitor=replace(readings.MONITOR, paused=True)).text == (
            "Cannot tell: paused by the configuration."
        )

    def test_headline_not_ready_is_unknown(self) -> None:
        monitor = replace(readings.MONITOR, not_ready=("pods has not been opened yet",))
        assert say(WITHIN, monitor=monitor).level is Level.UNKNOWN
        assert say(LATE, monitor=monitor).level is Level.BAD, "what is late is known all the same"

    def test_headline_stopped_clock_is_unknown(self) -> None:
        said = say(LATE, domains=silent(120.0, "The apiserver refuses the connection."))
        assert said.text == "Cannot tell: the clock has not ticked since 22:11 UTC."
        assert (said.figures, said.level) == ("for 2 min; The apiserver refuses the connection.", Level.UNKNOWN)
        assert said.since_wall == NOW - 120.0

    def test_headline_clock_with_rare_ticks_has_not_stopped_after_one_lost_tick(self) -> None:
        (domain,) = silent(11.0, None)
        rare = replace(domain, tickers=(replace(domain.tickers[0], gap=4.0),))
        assert say(LATE, domains=(rare,)).level is Level.BAD
        assert say(LATE, domains=(domain,)).level is Level.UNKNOWN

    def test_headline_does_not_repeat_the_reason(self) -> None:
        monitor = replace(readings.MONITOR, not_ready=("The revision clock does not tick: No answer.",))
        assert say(LATE, domains=silent(None, "No answer."), monitor=monitor).figures == ""

    def test_headline_clock_without_tick_is_unknown(self) -> None:
        said = say(LATE, domains=silent(None, None))
        assert said.text == "Cannot tell: the clock has not ticked yet."

    def test_headline_one_of_two_clocks_stopped_is_ignored(self) -> None:
        assert say(LATE, domains=(*silent(120.0, "no"), readings.DOMAIN)).level is Level.BAD
