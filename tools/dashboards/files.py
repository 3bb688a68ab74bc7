"""All dashboards and their JSON files."""

from tools.dashboards import apiserver, fleet, node, protocol, slo, trust
from tools.dashboards.grafana import encode

BOARDS = (slo.BOARD, protocol.BOARD, trust.BOARD, apiserver.BOARD, node.BOARD, fleet.BOARD)


def files() -> dict[str, str]:
    """Return the text of each dashboard file by file name."""
    return {f"{board.uid}.json": encode(board) for board in BOARDS}
