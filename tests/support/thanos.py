"""Thanos: sidecars of Prometheus servers, a querier of all of them, and a ruler that asks it."""

from collections.abc import Iterable
from pathlib import Path

from tests.support.control_plane import HOST, Port
from tests.support.prometheus import Prometheus, QueryServer


class ThanosServer(QueryServer):
    """A component of Thanos, which also answers by gRPC at `store`."""

    def __init__(self, folder: Path, program: Path, component: str, *arguments: str) -> None:
        folder.mkdir(exist_ok=True)
        self._grpc = Port()
        self.store = f"{HOST}:{self._grpc.number}"
        own = (f"--grpc-address={self.store}", "--log.level=warn")
        super().__init__(folder, component, program, component, *own, *arguments, listen="--http-address")

    def close(self) -> None:
        super().close()
        self._grpc.release()


def sidecar(folder: Path, program: Path, prometheus: Prometheus, data: Path) -> ThanosServer:
    """Return the sidecar of a Prometheus that stores at `data`."""
    return ThanosServer(folder, program, "sidecar", f"--prometheus.url={prometheus.url}", f"--tsdb.path={data}")


def querier(folder: Path, program: Path, stores: Iterable[str], replicas: Iterable[str]) -> ThanosServer:
    """Return a querier of these stores, which merges series that differ only in the labels `replicas`."""
    return ThanosServer(
        folder,
        program,
        "query",
        *(f"--endpoint={store}" for store in stores),
        *(f"--query.replica-label={label}" for label in replicas),
        "--query.lookback-delta=30s",
        "--query.timeout=20s",
    )


def ruler(folder: Path, program: Path, rules: Path, queriers: Path) -> ThanosServer:
    """Return a ruler with external labels of its own; the file `queriers` names its querier when it starts."""
    labels = ('--label=ruler="fleet"', '--label=ruler_replica="a"')
    files = (f"--data-dir={folder / 'data'}", f"--rule-file={rules}", f"--query.sd-files={queriers}")
    return ThanosServer(folder, program, "rule", *files, *labels)
