"""All dashboards, and the files that Grafana reads."""

from tools.dashboards import apiserver, protocol, slo, trust
from tools.dashboards.grafana import encode

BOARDS = (slo.BOARD, protocol.BOARD, trust.BOARD, apiserver.BOARD)


def files() -> dict[str, str]:
    """The text of every dashboard's file, by its name."""
    return {f"{board.uid}.json": encode(board) for board in BOARDS}
