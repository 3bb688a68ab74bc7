from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.serve import readings
from tests.unit.timeline.test_condition import FEW, LATE, SILENT, UNDECIDED, WITHIN, stream
from watchslo.snapshot import (
    ApiserverRole,
    Cause,
    CauseReading,
    DomainReading,
    OverallVerdict,
    Snapshot,
    StreamReading,
    WindowVerdict,
)
from watchslo.timeline.condition import Judge
from watchslo.timeline.headline import Assessment, Headline, headline
from watchslo.timeline.proven_hour import ProvenHour
from watchslo.timeline.verdict import Level

NOW = readings.SNAPSHOT.at_wall
IDLE = readings.changed(SILENT, audit={"result": "idle"})
STALLED = readings.changed(SILENT, audit={"stalled_for": 33.5})
CLOSED = replace(WITHIN, up=False)


def below(upper: float) -> StreamReading:
    """Return a watch whose estimate is below the round trip of the ticks, with this upper bound."""
    quantiles = [replace(one, upper=upper, resolved=False) for one in WITHIN.track.windows[0].quantiles]
    return replace(WITHIN, track=readings.judged(100, *quantiles))


def say(
    *streams: StreamReading, after: float = 0.0, causes: tuple[CauseReading, ...] = (), **changes: object
) -> Headline:
    """What is said of these watches, each by another name, `after` seconds in which they were so."""
    named = tuple(replace(one, watch=f"w{number}") for number, one in enumerate(streams, 1))
    made: Snapshot = replace(readings.SNAPSHOT, streams=named, causes=causes, at_wall=NOW + after, **changes)  # type: ignore[arg-type]
    judges = [Judge() for _ in named]
    for judge, one in zip(judges, named, strict=True):
        judge.condition(one, NOW)
    lines = [judge.condition(one, NOW + after) for judge, one in zip(judges, named, strict=True)]
    return headline(Assessment(made, lines))


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
        ([IDLE], Level.GOOD, "The watch is idle (proven by audits).", ""),
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
        Assessment(
            replace(readings.SNAPSHOT, streams=(LATE, LATE), causes=(), at_wall=NOW + 300),
            [first.condition(LATE, NOW + 59), replace(second.condition(LATE, NOW + 300), since_wall=NOW + 240)],
        )
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
    assert (said.verdict, said.level) == (OverallVerdict.DOWN, Level.UNKNOWN), "of its other clients nothing is known"
    assert said.text == "1 of 2 watches cannot be kept open since 22:13 UTC"
    assert said.figures == "w1. the connection was reset"
    assert say(readings.changed(CLOSED, session={"last_failure": None}), after=15).figures == "w1."


def test_headline_of_idle_watches_ignores_one_that_reopens() -> None:
    said = say(CLOSED, IDLE, IDLE, after=5)
    assert said.level is Level.GOOD
    assert said.text == "2 of 3 watches are idle (proven by audits), and 1 reopens."
    assert say(CLOSED, CLOSED, after=5).level is Level.UNKNOWN
    assert say(CLOSED, IDLE, IDLE, after=15).verdict is OverallVerdict.DOWN
    assert say(CLOSED, IDLE, SILENT, after=5).level is Level.UNKNOWN


def test_headline_of_a_watch_that_no_client_can_open_is_bad() -> None:
    down = replace(CLOSED, down_for=12.0)
    monitor = replace(readings.MONITOR, not_ready=("w1 has not been opened yet",))
    for ready in (readings.MONITOR, monitor):
        said = say(down, WITHIN, monitor=ready)
        assert (said.verdict, said.level) == (OverallVerdict.DOWN, Level.BAD)
    assert say(replace(down, down_for=9.0), WITHIN).level is Level.GOOD


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


class TestUnresponsive:
    def say(self, *silent_for: float | None, apiservers: int = 3, witness: bool = False, **changes: object) -> Headline:
        """Return the headline with watches at so many apiservers, of which the first ones are silent.

        As in a daemon, the service is one more, which nothing watches. A `witness` answers.
        """
        names = [f"10.0.0.{number}:6443" for number in range(1, apiservers + 1)]
        ages = [*silent_for, *(None for _ in names)]
        made = tuple(
            replace(readings.SERVICE, name=name, role=ApiserverRole.MEMBER, unresponsive_for=age)
            for name, age in zip(names, ages, strict=False)
        )
        streams = [replace(WITHIN, apiserver=one.name, unresponsive=one.unresponsive_for is not None) for one in made]
        service = replace(readings.SERVICE, role=ApiserverRole.SERVICE)
        witnesses = [replace(readings.SERVICE, name="10.0.0.9:6443", role=ApiserverRole.WITNESS)] if witness else []
        return say(*streams, apiservers=(service, *made, *witnesses), **changes)  # type: ignore[arg-type]

    def test_headline_names_the_apiserver_that_answers_nothing(self) -> None:
        said = self.say(12.0)
        assert (said.verdict, said.level) == (OverallVerdict.UNRESPONSIVE, Level.BAD)
        assert said.text == "10.0.0.1:6443 answers nothing since 22:13 UTC"
        assert said.figures == "no event of 1 watch can arrive"
        assert said.since_wall == NOW - 12.0

    def test_headline_names_two_apiservers(self) -> None:
        assert self.say(12.0, 75.0).text == "10.0.0.2:6443 and 10.0.0.1:6443 answer nothing since 22:12 UTC"

    def test_network_is_not_cut_while_a_witness_answers(self) -> None:
        said = self.say(12.0, apiservers=1, witness=True)
        assert (said.text, said.figures) == (
            "10.0.0.1:6443 answers nothing since 22:13 UTC",
            "no event of 1 watch can arrive",
        )

    def test_headline_says_that_the_network_may_be_cut_if_nothing_answers(self) -> None:
        said = self.say(12.0, 12.0, 12.0)
        assert said.text == "None of the 3 apiservers answers since 22:13 UTC"
        assert said.figures == (
            "no event of 3 watches can arrive; nothing else answers either, so the network from here may be cut"
        )

    def test_headline_before_the_first_watch_counts_none(self) -> None:
        service = replace(readings.SERVICE, unresponsive_for=12.0)
        assert say(apiservers=(service,)).figures == (
            "no event of any watch can arrive; nothing else answers either, so the network from here may be cut"
        )

    def test_headline_of_a_single_service(self) -> None:
        service = replace(readings.SERVICE, unresponsive_for=12.0)
        said = say(replace(WITHIN, unresponsive=True), apiservers=(service,))
        assert said.text == "The apiserver answers nothing since 22:13 UTC"

    def test_headline_is_about_watched_apiservers_only(self) -> None:
        witness = replace(readings.SERVICE, name="10.0.0.9:6443", role=ApiserverRole.WITNESS, unresponsive_for=12.0)
        assert say(WITHIN, apiservers=(readings.SERVICE, witness)).level is Level.GOOD

    def test_headline_joins_what_else_is_late(self) -> None:
        service = replace(readings.SERVICE, unresponsive_for=12.0)
        said = say(LATE, apiservers=(service,))
        assert said.text == "The apiserver answers nothing since 22:13 UTC; w1: late since 22:13 UTC"

    def test_headline_ignores_stopped_clocks_then(self) -> None:
        assert self.say(12.0, domains=silent(120.0, None)).verdict is OverallVerdict.UNRESPONSIVE


class TestCauses:
    CAUSE = readings.SNAPSHOT.causes[0]

    def test_headline_with_an_active_cause_is_never_green(self) -> None:
        said = say(WITHIN, causes=(self.CAUSE,))
        assert (said.verdict, said.level) == (OverallVerdict.CAUSE, Level.UNKNOWN)
        assert said.text == f"No watch is proven late, but a cause of lateness is active: {self.CAUSE.cause}."
        assert said.figures.endswith(self.CAUSE.evidence.rstrip("."))

    def test_headline_counts_more_causes(self) -> None:
        assert say(WITHIN, causes=(self.CAUSE, self.CAUSE)).text.endswith(", and 1 more cause.")

    def test_headline_of_our_own_overload_says_so(self) -> None:
        overload = replace(self.CAUSE, cause=Cause.MONITOR_OVERLOADED)
        said = say(WITHIN, causes=(overload,))
        assert said.verdict is OverallVerdict.MONITOR_PROBLEM
        assert said.text == "Cannot tell: watchslo itself could not keep up in the last minute."


class TestProvenOnly:
    """The headline of an instance without quantiles, which says what it is for."""

    def say(self, hour: ProvenHour, *streams: StreamReading) -> str:
        made = replace(readings.SNAPSHOT, streams=streams, causes=(), at_wall=NOW)
        return headline(Assessment(made, [Judge().condition(one, NOW) for one in streams], hour=hour)).text

    def test_headline_says_what_was_proven(self) -> None:
        open_ = replace(WITHIN, track=replace(WITHIN.track, judged=None, windows=(), proven_only=True))
        open_ = replace(open_, track=replace(open_.track, verdict=WindowVerdict.NO_DATA))
        hour = ProvenHour(seconds=7200.0)
        assert self.say(hour, open_, open_, open_) == (
            "3 of 3 watches connected, nothing proven late or violated in the last hour."
        )
        assert self.say(replace(hour, late=4, violations=1, seconds=725.0), open_, replace(open_, up=False)) == (
            "1 of 2 watches connected, 4 events proven late and 1 violation of guarantees in the last 12 min."
        )

    def test_headline_of_late_events_counts_them(self) -> None:
        judge = Judge()
        track = replace(WITHIN.track, judged=None, windows=(), proven_only=True, verdict=WindowVerdict.NO_DATA)
        for beyond in (2, 5):
            objective = replace(track.objective, verdicts={"beyond": beyond})
            line = judge.condition(replace(WITHIN, track=replace(track, objective=objective)), NOW)
        made = replace(readings.SNAPSHOT, streams=(line.stream,), causes=(), at_wall=NOW)
        said = headline(Assessment(made, [line]))
        assert (said.text, said.figures) == ("pods: late since 22:13 UTC", "5 events proven late since the start")


class TestOneOfSeveralClocks:
    def test_headline_is_not_green_while_some_watches_have_no_clock(self) -> None:
        (stopped,) = silent(120.0, "No answer.")
        domains = (readings.DOMAIN, replace(stopped, name="events"))
        said = say(WITHIN, replace(WITHIN, domain="events"), domains=domains)
        assert said.text == "Cannot tell: the clock of 1 watch has not ticked since 22:11 UTC."
        assert (said.verdict, said.figures) == (OverallVerdict.CLOCK_STOPPED, "for 2 min; No answer.")
