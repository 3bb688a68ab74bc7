import pytest

from watchslo.watch.responsiveness import UNRESPONSIVE_SECONDS, Responsiveness


def look(responsiveness: Responsiveness, begin: float, end: float, late: float = 0.0) -> float | None:
    """Look each second from `begin` to `end`; return for how long the apiserver is unresponsive then."""
    now = begin
    while now <= end:
        responsiveness.look(now, late)
        now += 1.0
    return responsiveness.unresponsive_for(end)


def test_apiserver_that_was_never_asked_is_not_unresponsive() -> None:
    assert look(Responsiveness(), 0.0, 1000.0) is None
    assert Responsiveness().silence(5.0) == 0.0


def test_apiserver_is_unresponsive_from_its_first_unanswered_request() -> None:
    responsiveness = Responsiveness()
    for sent in (100.0, 100.5, 101.0):
        responsiveness.asked(sent)
    assert responsiveness.silence(104.0) == 4.0
    assert look(responsiveness, 100.0, 100.0 + UNRESPONSIVE_SECONDS - 1.0) is None
    assert look(responsiveness, 110.0, 125.0) == 25.0


def test_any_answer_ends_the_silence_at_once() -> None:
    responsiveness = Responsiveness()
    responsiveness.asked(100.0)
    look(responsiveness, 100.0, 130.0)
    responsiveness.heard(130.5)
    assert responsiveness.unresponsive_for(131.0) is None
    assert responsiveness.silence(131.0) == 0.0


def test_refused_connection_differs_from_silence_until_anything_is_received() -> None:
    responsiveness = Responsiveness()
    responsiveness.asked(100.0)
    refuses = [responsiveness.refuses]
    responsiveness.refused()
    refuses.append(responsiveness.refuses)
    assert look(responsiveness, 100.0, 112.0) == 12.0
    responsiveness.heard(113.0)
    refuses.append(responsiveness.refuses)
    assert refuses == [False, True, False]


def test_what_was_received_before_the_request_is_no_answer() -> None:
    responsiveness = Responsiveness()
    responsiveness.asked(100.0)
    responsiveness.heard(99.9)
    assert look(responsiveness, 100.0, 112.0) == 12.0


def test_answer_to_nothing_is_ignored() -> None:
    responsiveness = Responsiveness()
    responsiveness.heard(100.0)
    assert responsiveness.silence(200.0) == 0.0


@pytest.mark.parametrize(("late", "unresponsive"), [(0.0, 40.0), (0.5, 20.0), (1.0, None)])
def test_time_in_which_this_process_was_late_does_not_count(late: float, unresponsive: float | None) -> None:
    responsiveness = Responsiveness()
    responsiveness.asked(100.0)
    assert look(responsiveness, 101.0, 140.0, late) == unresponsive
