"""A cluster with aggregated APIs whose discovery is odd: everything else is measured, and the odd group is named."""

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from ssl import create_default_context
from typing import Any

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file, watchslo
from tests.support.odd_apis import METRICS, SUBRESOURCES, VERSION, WRONG, OddApis
from tests.support.process import PATIENCE_SECONDS, eventually
from tests.support.writer import configmap
from watchslo.kube.discovery import ACCEPT

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("odd-apis")
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd))
        apis = stack.enter_context(OddApis(plane.authority.server("odd-apis")))
        with plane.writer() as writer:
            apis.register(writer)
        eventually(lambda: len(odd_groups(plane)) == 3, "all groups are discovered")
        yield plane


def odd_groups(plane: ControlPlane) -> dict[str, Any]:
    """Return the versions of the odd groups that the apiserver has asked for, in its aggregated discovery."""
    headers = {"Accept": ACCEPT, "Authorization": f"Bearer {plane.token}"}
    request = urllib.request.Request(f"{plane.url}/apis", headers=headers)
    with urllib.request.urlopen(
        request, timeout=PATIENCE_SECONDS, context=create_default_context(cafile=plane.ca)
    ) as answer:
        items = json.load(answer)["items"]
    found = {item["metadata"]["name"]: item["versions"][0] for item in items}
    known = {name: found[name] for name in (METRICS, SUBRESOURCES) if found.get(name, {}).get("resources")}
    return known | {name: version for name, version in found.items() if name == WRONG}


def test_apiserver_writes_null_for_resources_without_verbs(plane: ControlPlane) -> None:
    """The apiserver invents the parent of a subresource, and gives it no verbs."""
    groups = odd_groups(plane)
    (pods,), (expand,) = groups[METRICS]["resources"], groups[SUBRESOURCES]["resources"]
    assert (pods["resource"], pods["verbs"]) == ("pods", None)
    assert (expand["resource"], expand["verbs"]) == ("expand-vm-spec", None)
    assert groups[WRONG]["freshness"] == "Stale"


def test_everything_else_is_measured_and_the_odd_group_is_named(plane: ControlPlane, tmp_path: Path) -> None:
    config = config_file(tmp_path, watch=[{"resource": "*"}])
    given = ("--config", config, "--kubeconfig", plane.kubeconfig())
    with Daemon(tmp_path / "daemon", *given) as daemon, plane.writer() as writer:
        daemon.until_ready()
        daemon.until_sampled("configmaps", 1, lambda number: writer.create(CONFIGMAPS, configmap(f"odd-{number}")))
        named = [f"{WRONG}/{VERSION}"]
        assert [group["name"] for group in daemon.status()["monitor"]["incompleteGroups"]] == named
        assert [entry["group"] for entry in daemon.log("api_group_incomplete")] == named
        assert not daemon.log("discovery_failed")
    found = json.loads(watchslo("doctor", *given, "-o", "json").stdout)["findings"]
    warnings = [one["text"] for one in found if (one["level"], one["subject"]) == ("warning", "resources")]
    assert len(warnings) == 1
    assert named[0] in warnings[0]
    assert METRICS not in json.dumps(found)
