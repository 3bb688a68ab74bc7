from dataclasses import replace

import pytest

from tests.unit.serve import readings
from watchslo.app.table import draw, figures, headings, plain_console, status
from watchslo.app.view import Line, view_of
from watchslo.snapshot import QuantileReading
from watchslo.timeline.condition import P50, P99, Condition, WatchVerdict
from watchslo.timeline.format import estimated


def line(*p99: float, events: int = 100) -> Line:
    """A watch whose P99 has this lower bound, estimate and upper bound, or none."""
    quantiles: tuple[QuantileReading, ...] = ()
    if p99:
        lower, estimate, upper = p99
        median = QuantileReading(P50, 0.0, 0.002, 0.4, resolved=False)
        quantiles = (median, QuantileReading(P99, lower, estimate, upper, resolved=True))
    track = readings.judged(events, *quantiles)
    (made,) = view_of(replace(readings.SNAPSHOT, streams=(replace(readings.TAIL, track=track),))).lines
    return made


def test_line_without_events_is_not_measured() -> None:
    made = line(events=0)
    assert made.verdict is WatchVerdict.NOT_MEASURED
    assert figures(made) == ("0", "–", "–", "–")  # noqa: RUF001 - typography


def test_unresolved_estimate_is_shown_as_the_resolution() -> None:
    made = line(0.1, 0.2, float("inf"))
    assert figures(replace(made, resolution=0.304)) == ("100", "≲ 304 ms", "200 ms", "100 ms … ∞")
    assert figures(replace(made, resolution=None))[1] == "≲ 2 ms", "the clock of its domain is gone"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.01234, "~12 ms"), (0.377, "~380 ms"), (0.996, "~1 s"), (2.944, "~2.9 s"), (128, "~130 s")]
)
def test_rough_estimate_is_marked_and_has_two_digits(seconds: float, shown: str) -> None:
    assert estimated(seconds, rough=True) == shown
    made = line(0.0, seconds, float("inf"))
    rough = replace(made, quantiles={P99: replace(made.quantiles[P99], rough=True)})
    assert figures(rough)[2] == shown


def test_status_names_state_of_closed_watch() -> None:
    made = line(0.0, 0.1, 0.9)
    assert status(made) == "within"
    down = replace(made, up=False, state="reopening")
    assert status(replace(down, condition=Condition.CLOSED)) == "closed (reopening)"


def test_status_names_stall() -> None:
    made = line(0.0, 0.1, 0.9)
    stalled = replace(made, stalled_for=12.0, condition=Condition.STALLED)
    assert status(stalled) == "stalled for 12 s"


def test_status_marks_a_watch_that_is_not_proven_to_be_within() -> None:
    assert status(replace(line(0.003, 0.012, 1.19), condition=Condition.WITHIN)) == "within (95%)"


def drawn(*lines: Line) -> str:
    console = plain_console()
    with console.capture() as captured:
        console.print(draw(lines))
    return captured.get()


def test_table_fits_into_a_hundred_columns() -> None:
    bad = replace(line(0.1234, 0.1234, 0.1234, events=100_000), watch="endpointslices.discovery.k8s.io")
    bad = replace(bad, condition=Condition.CLOSED, up=False, state="reopening", failure="This identity may not. " * 9)
    assert max(map(len, drawn(bad).splitlines())) <= 100


def test_table_names_the_quantile_that_is_judged() -> None:
    made = line(0.0, 0.1, 0.9)
    other = replace(made, quantile=0.5, quantiles={P50: QuantileReading(P50, 0.3, 0.4, 0.5, resolved=True)})
    assert headings([made, made]) == ("WATCH", "EVENTS", "P50", "P99", "P99 BOUNDS")
    assert headings([replace(made, quantile=0.999)])[3:] == ("P99.9", "P99.9 BOUNDS")
    assert headings([made, other])[3:] == ("QUANTILE", "QUANTILE BOUNDS")
    assert figures(other)[2:] == ("400 ms", "300 ms … 500 ms")


def test_table_has_p999_if_a_watch_has_it() -> None:
    made = line(0.0, 0.1, 0.9)
    tail = QuantileReading(0.999, 0.3, 0.4, 0.5, resolved=True, rough=True)
    busy = replace(made, quantiles={**made.quantiles, 0.999: tail})
    assert "P99.9" not in drawn(made)
    assert drawn(made, busy).splitlines()[0].split()[-1] == "P99.9"
    assert [row.split()[-3:-1] for row in drawn(busy).splitlines()[1:]] == [["~400", "ms"]]
    assert "P99.9 BOUNDS" in drawn(replace(busy, quantile=0.999))


def test_table_does_not_interpret_markup() -> None:
    made = line(0.0, 0.1, 0.9)
    odd = replace(made, watch="[/bold] :boom:")
    assert "[/bold] :boom:" in drawn(odd)


def test_table_without_watches_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    plain_console().print(draw([]))
    assert capsys.readouterr().out == ""
