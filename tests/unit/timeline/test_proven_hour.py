from watchslo.timeline.proven_hour import NOTHING_PROVEN, ProvenHistory, ProvenHour

NOW = 1_700_000_000.0


def test_only_what_was_added_since_the_start_counts() -> None:
    history = ProvenHistory()
    assert history.observe(NOW, 7, 2) == NOTHING_PROVEN
    assert history.observe(NOW + 30, 8, 2) == ProvenHour(late=1, violations=0, seconds=30.0)
    assert history.observe(NOW + 90, 9, 3) == ProvenHour(late=2, violations=1, seconds=90.0)


def test_what_is_older_than_an_hour_does_not_count() -> None:
    history = ProvenHistory()
    for minute in range(200):
        found = history.observe(NOW + 60 * minute, minute, 0)
    assert (found.late, found.seconds, found.span) == (60, 3600.0, "hour")


def test_span_of_a_short_life_is_its_length() -> None:
    assert ProvenHour(seconds=725.0).span == "12 min"


def test_counters_that_start_again_are_not_negative() -> None:
    history = ProvenHistory()
    history.observe(NOW, 7, 2)
    assert history.observe(NOW + 60, 0, 0) == ProvenHour(0, 0, 60.0)
