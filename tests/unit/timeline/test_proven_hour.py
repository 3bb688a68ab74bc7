from watchslo.timeline.proven_hour import NOTHING_PROVEN, ProvenHistory, ProvenHour

NOW = 1_700_000_000.0


PODS, NODES = ("service", "pods"), ("service", "nodes")


def test_only_what_was_added_since_the_start_counts() -> None:
    history = ProvenHistory()
    assert history.observe(NOW, {PODS: 7}, {PODS: 2}) == NOTHING_PROVEN
    assert history.observe(NOW + 30, {PODS: 8}, {PODS: 2}) == ProvenHour(late=1, violations=0, seconds=30.0)
    assert history.observe(NOW + 90, {PODS: 9}, {PODS: 3}) == ProvenHour(late=2, violations=1, seconds=90.0)


def test_what_is_older_than_an_hour_does_not_count() -> None:
    history = ProvenHistory()
    for minute in range(200):
        found = history.observe(NOW + 60 * minute, {PODS: minute}, {})
    assert (found.late, found.seconds, found.span) == (60, 3600.0, "hour")


def test_span_of_a_short_life_is_its_length() -> None:
    assert ProvenHour(seconds=725.0).span == "12 min"


def test_watch_that_goes_or_starts_again_hides_nothing() -> None:
    history = ProvenHistory()
    history.observe(NOW, {PODS: 7, NODES: 9}, {PODS: 2})
    assert history.observe(NOW + 60, {PODS: 8}, {PODS: 3}) == ProvenHour(1, 1, 60.0), "the watch of nodes is gone"
    assert history.observe(NOW + 90, {PODS: 2, NODES: 4}, {PODS: 1}) == ProvenHour(7, 2, 90.0), "both start from 0"
