"""The headline in many situations: `tests/golden/headlines.txt` has a paragraph for each of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from tests.unit.timeline.test_condition import FEW, LATE, SILENT, UNDECIDED, WITHIN, stream
from watchslo.snapshot import (
    ApiserverReading,
    ApiserverRole,
    Cause,
    CauseReading,
    Confidence,
    DomainReading,
    ExcessReading,
    QuantileReading,
    WatchReading,
    WindowVerdict,
)
from watchslo.timeline.condition import Judge
from watchslo.timeline.headline import Assessment, Headline, headline
from watchslo.timeline.proven_hour import NOTHING_PROVEN, ProvenHour

NOW = readings.SNAPSHOT.at_wall
IDLE = readings.changed(SILENT, audit={"result": "idle"})
STALLED = readings.changed(SILENT, audit={"stalled_for": 33.5})
CLOSED = replace(WITHIN, up=False)
DOWN = replace(CLOSED, down_for=12.0)
UNOPENED = readings.changed(CLOSED, received={"last_wall": None})
ASIDE = replace(CLOSED, membership="unparsable")
CAUSE = readings.SNAPSHOT.causes[0]
STORAGE = replace(
    CAUSE,
    cause=Cause.STORAGE_SLOW,
    apiserver=None,
    confidence=Confidence.HIGH,
    evidence="Consistent reads are slow through every apiserver; no tick has an answer for 120 s.",
)
SLOWER = replace(
    WITHIN, track=readings.judged(100, QuantileReading(0.5, 0.0, 0.03, 0.5), *WITHIN.track.windows[0].quantiles)
)
STARTING = replace(readings.MONITOR, not_ready=("pods has not been opened yet",))
PROVEN = replace(WITHIN.track, judged=None, windows=(), proven_only=True, verdict=WindowVerdict.NO_DATA)
CONNECTED = replace(WITHIN, track=PROVEN)


def below(upper: float) -> WatchReading:
    """Return a watch whose estimate is below the round trip of the ticks, with this upper bound."""
    quantiles = [replace(one, upper=upper, resolution=0.3) for one in WITHIN.track.windows[0].quantiles]
    return replace(WITHIN, track=readings.judged(100, *quantiles))


def of_threshold(seconds: float) -> WatchReading:
    objective = replace(WITHIN.track.objective, threshold=seconds)
    return replace(WITHIN, track=replace(WITHIN.track, objective=objective))


def proven_late(events: int) -> WatchReading:
    return replace(CONNECTED, track=replace(PROVEN, objective=replace(PROVEN.objective, verdicts={"beyond": events})))


def say(
    *streams: WatchReading,
    after: float = 0.0,
    before: tuple[WatchReading, ...] = (),
    causes: tuple[CauseReading, ...] = (),
    hour: ProvenHour = NOTHING_PROVEN,
    last_bad: float | None = None,
    usual: tuple[float, ...] = (),
    **changes: Any,
) -> Headline:
    """Return what is said of these watches, `after` seconds in which they were so, or were as `before`."""
    made = tuple(replace(one, watch=f"w{number}") for number, one in enumerate(streams, 1))
    judges = [Judge() for _ in made]
    for judge, one in zip(judges, before or made, strict=True):
        judge.condition(one, NOW)
    lines = [judge.condition(one, NOW + after) for judge, one in zip(judges, made, strict=True)]
    snapshot = replace(readings.SNAPSHOT, watches=made, causes=causes, at_wall=NOW + after, **changes)
    known = {(line.watch.apiserver, line.watch.watch): p50 for line, p50 in zip(lines, usual, strict=False)}
    return headline(Assessment(snapshot, lines, hour=hour, last_bad_wall=last_bad, usual=known))


MISSING = replace(
    readings.MONITOR, missing=("the apiserver serves no resource widgets; look for it in `kubectl api-resources`",)
)


def clock(ago: float | None = None, failure: str | None = None, gap: float | None = None) -> DomainReading:
    """Return a clock that ticked so many seconds ago."""
    ticker = replace(readings.TICKER, answered_ago=ago, failure=failure)
    return replace(readings.DOMAIN, tickers=(replace(ticker, gap=gap or ticker.gap),))


def slow(*streams: WatchReading, resolution: float | None = 0.304) -> Headline:
    """Return what is said while ticks are slow: a latency below their round trip is not a measurement."""
    return say(*streams, domains=(replace(readings.DOMAIN, resolution=resolution),))


def unanswered(
    *silent_for: float | None,
    watched: int = 3,
    witness: bool = False,
    refuses: bool = False,
    withdrawn: bool = False,
    **changes: Any,
) -> Headline:
    """Return the headline with a watch at each of the watched apiservers, of which the first ones are silent.

    As in a daemon, the service is one more, which nothing watches. A `witness` answers.
    """
    ages = [*silent_for, *[None] * (watched - len(silent_for))]
    members = [at(f"10.0.0.{number}:6443", ApiserverRole.MEMBER, age) for number, age in enumerate(ages, 1)]
    members = [replace(one, refuses=refuses, withdrawn=withdrawn) if one.unresponsive_for else one for one in members]
    streams = [replace(WITHIN, apiserver=one.name, unresponsive=one.unresponsive_for is not None) for one in members]
    others = [at("10.0.0.9:6443", ApiserverRole.WITNESS)] if witness else []
    apiservers = (replace(readings.SERVICE, role=ApiserverRole.SERVICE), *members, *others)
    return say(*streams, apiservers=apiservers, **changes)


def at(name: str, role: ApiserverRole, silent_for: float | None = None) -> ApiserverReading:
    return replace(readings.SERVICE, name=name, role=role, unresponsive_for=silent_for)


LATE_THERE, WITHIN_THERE = (replace(one, apiserver="10.0.0.1:6443") for one in (LATE, WITHIN))
SILENT_SERVICE = replace(readings.SERVICE, unresponsive_for=12.0)


def situations() -> Mapping[str, Headline]:
    return {
        "A watch is within": say(WITHIN),
        "All are within": say(WITHIN, WITHIN),
        "All are within thresholds that differ": say(WITHIN, of_threshold(2.0)),
        "Some are within; the others are idle, have few events or none": say(WITHIN, IDLE, FEW, SILENT),
        "All are within, after a bad minute": say(WITHIN, WITHIN, last_bad=NOW - 3600.0),
        "Some are within, after a bad minute of yesterday": say(WITHIN, IDLE, last_bad=NOW - 80_000.0),
        "One is undecided": say(WITHIN, UNDECIDED),
        "The only one is undecided": say(UNDECIDED),
        "The only one is idle": say(IDLE),
        "All are idle": say(IDLE, IDLE),
        "None is within, and not all are idle": say(IDLE, FEW),
        "There is no watch": say(),
        "One of all can never be measured": say(WITHIN, WITHIN, ASIDE),
        "All that can be measured are idle": say(IDLE, IDLE, ASIDE),
        "None can ever be measured": say(ASIDE, ASIDE),
        # Late and stalled
        "One is late": say(WITHIN, LATE),
        "One is late for almost a minute": say(LATE, after=59.0),
        "One is late for a minute: no reader has to compute with UTC": say(LATE, after=60.0),
        "One is late, another is undecided": say(LATE, UNDECIDED),
        "Two are late": say(LATE, LATE, WITHIN),
        "Two are late since other times": say(LATE, LATE, after=59.0, before=(LATE, WITHIN)),
        "All watches of one of two apiservers are late": say(LATE_THERE, LATE_THERE, WITHIN),
        "Some watches of one of two apiservers are late": say(LATE_THERE, WITHIN_THERE, LATE_THERE, WITHIN),
        "One watch of one of two apiservers is late": say(LATE_THERE, WITHIN_THERE, WITHIN),
        "Watches of two apiservers are late": say(LATE_THERE, LATE_THERE, LATE),
        "Many are late: they are counted, and the figures are those of the worst": say(
            LATE, LATE, LATE, stream(1.5, 2.9, 3.0), WITHIN
        ),
        "One is stalled": say(STALLED, WITHIN),
        "One is stalled, another is late": say(STALLED, LATE),
        # Closed
        "One reopens": say(CLOSED, WITHIN, after=5.0),
        "One cannot be kept open; of its other clients nothing is known": say(CLOSED, WITHIN, after=15.0),
        "One cannot be kept open, for an unknown reason": say(
            readings.changed(CLOSED, session={"last_failure": None}), after=15.0
        ),
        "One reopens, all others are idle": say(CLOSED, IDLE, IDLE, after=5.0),
        "One cannot be kept open, all others are idle": say(CLOSED, IDLE, IDLE, after=15.0),
        "One reopens, another is idle, and of the last nothing is known": say(CLOSED, IDLE, SILENT, after=5.0),
        "All reopen": say(CLOSED, CLOSED, after=2.0),
        "More than half have been closed for a moment": say(CLOSED, CLOSED, WITHIN, after=5.0),
        "Half have been closed for a moment": say(CLOSED, WITHIN, after=5.0),
        "One is open, but its right was removed": say(readings.changed(IDLE, audit={"result": "forbidden"}), WITHIN),
        "No client can open one": say(DOWN, WITHIN),
        "No client can open one at the start": say(DOWN, WITHIN, monitor=STARTING),
        "No client could open one for some seconds": say(replace(DOWN, down_for=9.0), WITHIN),
        "A configured resource is not served": say(WITHIN, monitor=MISSING),
        "A configured resource is not served, and a watch is closed": say(CLOSED, WITHIN, after=15.0, monitor=MISSING),
        "A configured resource is not served, and a watch is late": say(LATE, monitor=MISSING),
        # Slow ticks
        "Ticks are slow, and the only watch with events is within": slow(below(0.9), IDLE),
        "Ticks are slow, and all are within": slow(below(0.9), below(0.9)),
        "Ticks are slow, and one is undecided": slow(below(0.9), below(1.4)),
        "Ticks are slow, and one is late": slow(below(0.9), LATE),
        "Ticks are prompt enough for the threshold": slow(below(0.9), resolution=0.149),
        "The time of ticks is unknown": slow(below(0.9), resolution=None),
        "Ticks are slow, and latencies are longer": slow(WITHIN),
        "Ticks of another clock are slow": slow(replace(below(0.9), domain="other")),
        # What cannot be known
        "Watching is paused": say(WITHIN, monitor=replace(readings.MONITOR, paused=True)),
        "A watch has not been opened": say(WITHIN, UNOPENED, monitor=STARTING),
        "A watch has not been opened; what is late is known": say(LATE, UNOPENED, monitor=STARTING),
        "The clock has stopped": say(LATE, domains=(clock(120.0, "The apiserver refuses the connection."),)),
        "The storage is silent": say(WITHIN, domains=(clock(120.0, "No answer."),), causes=(STORAGE,)),
        "The storage has been silent since the start": say(SILENT, domains=(clock(failure="No"),), causes=(STORAGE,)),
        "The clock has stopped, and the storage is only suspected": say(
            WITHIN, domains=(clock(120.0),), causes=(replace(STORAGE, confidence=Confidence.LOW),)
        ),
        "The storage is slow": say(WITHIN, causes=(STORAGE,)),
        "The clock has lost one of its rare ticks": say(LATE, domains=(clock(17.0, gap=4.0),)),
        "The clock has lost as much time, in which it ticks often": say(LATE, domains=(clock(17.0),)),
        "The clock has lost some ticks, and nothing else is missing": say(
            WITHIN, domains=(clock(12.0),), monitor=replace(STARTING, not_ready=("The revision clock does not tick.",))
        ),
        "The clock has never ticked": say(LATE, domains=(clock(),)),
        "The clock has never ticked, for a reason that is shown next to the headline": say(
            LATE,
            domains=(clock(failure="No answer."),),
            monitor=replace(readings.MONITOR, not_ready=("The revision clock does not tick: No answer.",)),
        ),
        "A clock that dates no watch has stopped": say(
            LATE, domains=(replace(clock(120.0, "no"), name="other"), readings.DOMAIN)
        ),
        "The clock of some watches has stopped": say(
            WITHIN,
            replace(WITHIN, domain="events"),
            domains=(readings.DOMAIN, replace(clock(120.0, "No answer."), name="events")),
        ),
        "The clock of some watches has stopped, and another watch is late": say(
            LATE,
            replace(WITHIN, domain="events"),
            domains=(readings.DOMAIN, replace(clock(120.0, "No answer."), name="events")),
        ),
        "No clock ticks, as no revision of the server is a number": say(
            replace(WITHIN, membership="unparsable", up=False), domains=(clock(120.0, "No answer."),)
        ),
        "One delivers later than another apiserver": say(
            replace(WITHIN, apiserver="10.0.0.1:6443", behind_fastest=ExcessReading(100, 0.0, 0.001)),
            replace(WITHIN, apiserver="10.0.0.2:6443", behind_fastest=ExcessReading(100, 0.045, 0.1)),
        ),
        "One delivers much later than usual": say(
            replace(SLOWER, apiserver="10.0.0.1:6443"), replace(SLOWER, apiserver="10.0.0.2:6443"), usual=(0.01, 0.001)
        ),
        "The only apiserver delivers much later than usual, in half of its watches": say(
            SLOWER, SLOWER, WITHIN, usual=(0.001, 0.001)
        ),
        "A single watch of many takes longer than usual": say(SLOWER, SLOWER, WITHIN, usual=(0.001,)),
        "One delivers a little later than another apiserver": say(
            replace(WITHIN, apiserver="10.0.0.1:6443", behind_fastest=ExcessReading(100, 0.0, 0.001)),
            replace(WITHIN, apiserver="10.0.0.2:6443", behind_fastest=ExcessReading(100, 0.019, 0.1)),
        ),
        # Silent apiservers
        "An apiserver is silent": unanswered(12.0),
        "Two apiservers are silent": unanswered(12.0, 75.0),
        "An apiserver is silent, and was withdrawn": unanswered(12.0, withdrawn=True),
        "An apiserver refuses connections": unanswered(12.0, refuses=True),
        "Two apiservers refuse connections": unanswered(12.0, 75.0, refuses=True),
        "One of six apiservers is silent": unanswered(12.0, watched=6),
        "An apiserver is late, another one is not judged, and ports differ": say(
            replace(LATE, apiserver="10.0.0.1:6443"),
            replace(FEW, apiserver="10.0.0.2:8443"),
            apiservers=(at("10.0.0.1:6443", ApiserverRole.MEMBER), at("10.0.0.2:8443", ApiserverRole.MEMBER)),
        ),
        "All apiservers are silent": unanswered(12.0, 12.0, 12.0),
        "The only watched apiserver is silent; a witness answers": unanswered(12.0, watched=1, witness=True),
        "The service is silent before the first watch": say(apiservers=(SILENT_SERVICE,)),
        "The service is silent": say(replace(WITHIN, unresponsive=True), apiservers=(SILENT_SERVICE,)),
        "The service is silent, and a watch is late": say(LATE, apiservers=(SILENT_SERVICE,)),
        "A witness is silent": say(
            WITHIN, apiservers=(readings.SERVICE, at("10.0.0.9:6443", ApiserverRole.WITNESS, 12.0))
        ),
        "An apiserver is silent, and the clock has stopped": unanswered(12.0, domains=(clock(120.0),)),
        # Causes
        "A cause is active": say(WITHIN, causes=(CAUSE,)),
        "Two causes are active": say(WITHIN, causes=(CAUSE, CAUSE)),
        "Two controllers are slow": say(
            WITHIN,
            causes=tuple(
                replace(CAUSE, cause=Cause.CONTROLLER_SLOW, watch=name) for name in ("pods", "deployments.apps")
            ),
        ),
        "Other clients are behind": say(
            WITHIN, causes=tuple(replace(CAUSE, cause=cause) for cause in (Cause.CLIENT_CONNECTION, Cause.CLIENT_SLOW))
        ),
        "A controller is slow, and there is another cause": say(
            WITHIN, causes=(CAUSE, replace(CAUSE, cause=Cause.CONTROLLER_SLOW))
        ),
        "watchslo itself is late": say(WITHIN, causes=(replace(CAUSE, cause=Cause.MONITOR_OVERLOADED),)),
        # Without quantiles
        "Nothing was proven": say(CONNECTED, CONNECTED, CONNECTED, hour=ProvenHour(seconds=7200.0)),
        "Something was proven in the time since the start": say(
            CONNECTED, replace(CONNECTED, up=False), hour=ProvenHour(late=4, violations=1, seconds=725.0)
        ),
        "Events are proven late": say(proven_late(5), before=(proven_late(2),)),
    }


def test_headline_is_that_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("headlines.txt", of_states({name: _lines(said) for name, said in situations().items()}))


def _lines(said: Headline) -> list[str]:
    began = f", began at {said.since_wall - NOW:+g} s" if said.since_wall is not None else ""
    facts = f"{said.level.value}, {said.verdict.value}{began}"
    return [line for line in (facts, said.text, said.figures) if line]
