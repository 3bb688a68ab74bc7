"""A watch of whole objects next to a small one, of a daemon as users start it, at a real apiserver."""

import contextlib
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.control_plane import ControlPlane
from tests.support.daemon import WRITE_SECONDS, Daemon, Scrape, config_file
from tests.support.writer import Writer, configmap, crd

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
GROUP = "reference.watchslo.invalid"
GIZMOS = f"/apis/{GROUP}/v1/namespaces/default/gizmos"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def referenced(daemon: Daemon, name: str) -> Any:
    return next(stream["reference"] for stream in daemon.status()["streams"] if stream["watch"] == name)


def delays(name: str, scrape: Scrape) -> float:
    return scrape.total("watchslo_representation_delay_seconds_count", watch=name)


def written_and_compared(writer: Writer, daemon: Daemon, name: str, numbers: Iterator[int]) -> bool:
    """Create one more object; return True if there is a delay yet: an event that meets a late loop has none."""
    body = configmap(f"whole-{next(numbers)}")
    custom = {"apiVersion": f"{GROUP}/v1", "kind": "Gizmo", "metadata": body["metadata"]}
    writer.create(*((CONFIGMAPS, body) if name == "configmaps" else (GIZMOS, custom)))
    return delays(name, daemon.scrape()) > 0


def is_open(daemon: Daemon, name: str, _: Scrape) -> bool:
    return bool(referenced(daemon, name)["up"])


@contextlib.contextmanager
def defined(writer: Writer) -> Iterator[None]:
    writer.create(DEFINITIONS, crd("gizmos", "Gizmo", GROUP))
    yield
    writer.delete(f"{DEFINITIONS}/gizmos.{GROUP}")


def test_whole_objects_of_built_in_and_custom_resources_are_compared(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Custom resources have no protobuf."""
    watches = [{"resource": name, "name": name, "reference": True} for name in ("configmaps", f"gizmos.{GROUP}")]
    config = config_file(tmp_path, watch=watches)
    with (
        control_plane.writer() as writer,
        defined(writer),
        Daemon(tmp_path, "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon,
    ):
        daemon.until_ready()
        for watch, representation in zip(watches, ("protobuf", "plain"), strict=True):
            name = str(watch["name"])
            daemon.until(partial(is_open, daemon, name), "a watch of whole objects")
            compared = partial(written_and_compared, writer, daemon, name, count())
            daemon.process.until(compared, "a delay", WRITE_SECONDS)
            known = delays(name, daemon.scrape())
            found = referenced(daemon, name)
            assert (found["representation"], found["failure"]) == (representation, None)
            assert found["events"] >= known
