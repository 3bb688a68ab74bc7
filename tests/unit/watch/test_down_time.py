"""When a watch is down, from its requests and failures."""

import pytest

from watchslo.watch.down_time import OWN_WAIT_SECONDS, DownTime
from watchslo.watch.failure import RULES, CloseClass, Reason, because

OF_CLIENTS = {
    Reason.DEADLINE,
    Reason.FORCED,
    Reason.APISERVER_SHUTDOWN,
    Reason.SLOW_CONSUMER,
    Reason.CRD_CHANGED,
    Reason.CRD_DELETED,
    Reason.EMPTY_CLOSE,
    Reason.THROTTLED,
    Reason.INITIALIZING,
    Reason.CONVERSION,
    Reason.SERVER_ERROR,
    Reason.FUTURE_REVISION,
    Reason.UNEXPECTED_STATUS,
    Reason.GARBAGE,
    Reason.TIME_TRAVEL,
    Reason.EXPIRED,
    Reason.REFUSED,
    Reason.UNREACHABLE,
    Reason.DNS,
    Reason.TLS,
    Reason.TIMEOUT,
    Reason.RESET,
    Reason.EARLY_EOF,
    Reason.STALLED,
}


def down_since(since: float, reason: Reason = Reason.REFUSED) -> DownTime:
    down = DownTime()
    down.failed(because(reason), since)
    return down


class TestDownTime:
    def test_is_none_at_first(self) -> None:
        assert DownTime().seconds(1000) is None

    def test_begins_with_the_first_of_several_failures(self) -> None:
        down = down_since(1000)
        down.failed(because(Reason.TIMEOUT), 1005)
        assert down.seconds(1007) == 7

    def test_ends_when_the_watch_opens(self) -> None:
        down = down_since(1000)
        down.end()
        assert down.seconds(1007) is None

    @pytest.mark.parametrize("reason", RULES)
    def test_begins_only_if_other_clients_fail_as_well(self, reason: Reason) -> None:
        assert (down_since(1000, reason).seconds(1001) == 1) == (reason in OF_CLIENTS)
        assert RULES[reason][0] not in (CloseClass.OWN, CloseClass.CREDENTIALS) or reason not in OF_CLIENTS

    def test_is_unknown_after_a_failure_of_this_client_alone(self) -> None:
        down = down_since(1000)
        down.failed(because(Reason.FORBIDDEN), 1005)
        assert down.seconds(1007) is None

    def test_is_none_while_the_request_waits_in_this_process(self) -> None:
        down = down_since(1000)
        down.requested(op=7)
        assert down.seconds(1007) is None
        down.sent(op=6, requested=1000, now=1007)
        assert down.seconds(1007) is None
        down.sent(op=7, requested=1007 - OWN_WAIT_SECONDS, now=1007)
        assert down.seconds(1008) == 8

    def test_begins_again_after_a_long_wait_in_this_process(self) -> None:
        down = down_since(1000)
        down.requested(op=7)
        down.sent(op=7, requested=1000, now=1007)
        assert down.seconds(1008) == 1

    def test_request_that_fails_before_it_is_sent_waits_no_longer(self) -> None:
        down = down_since(1000)
        down.requested(op=7)
        down.failed(because(Reason.REFUSED), 1003)
        assert down.seconds(1008) == 8

    def test_first_request_begins_none(self) -> None:
        down = DownTime()
        down.requested(op=1)
        down.sent(op=1, requested=1000, now=1007)
        assert down.seconds(1008) is None
