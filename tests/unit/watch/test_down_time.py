"""When a watch is down, from its requests and failures."""

import pytest

from watchslo.watch.down_time import DownTime
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


@pytest.mark.parametrize("reason", RULES)
def test_down_time_begins_only_if_other_clients_fail_as_well(reason: Reason) -> None:
    down = DownTime()
    down.failed(because(reason), 1000)
    assert (down.seconds(1001) == 1) == (reason in OF_CLIENTS)
    assert RULES[reason][0] not in (CloseClass.OWN, CloseClass.CREDENTIALS) or reason not in OF_CLIENTS
