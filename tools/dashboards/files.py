"""All dashboards and their files, for Grafana and for Perses."""

from tools.dashboards import apiserver, fleet, node, overview, perses, protocol, slo, trust
from tools.dashboards.grafana import encode

BOARDS = (overview.BOARD, slo.BOARD, protocol.BOARD, trust.BOARD, apiserver.BOARD, node.BOARD, fleet.BOARD)


def files() -> dict[str, str]:
    """Return the text of each dashboard of Grafana by file name."""
    return {f"{board.uid}.json": encode(board) for board in BOARDS}


def perses_files() -> dict[str, str]:
    """Return the text of each dashboard of Perses by file name."""
    return {f"{board.uid}.yaml": perses.encode(board) for board in BOARDS}
