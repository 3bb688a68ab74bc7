"""The profile `control-plane` as it is shipped: an instance next to each apiserver, with the rights of its account."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.control_plane import ControlPlane
from tests.support.high_availability import HighAvailability

PROFILE = Path(__file__).parents[2] / "deploy/chart/profiles/control-plane"
OWN = "https://${HOST_IP}:6443"
NAMESPACE = ACCOUNT = "watchslo"
CORE = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def profile_of(url: str) -> dict[str, Any]:
    """Return the configuration of the instance next to the apiserver at a URL, whose port is not the usual one here."""
    config: dict[str, Any] = yaml.safe_load((PROFILE / "watchslo.yaml").read_text())
    assert config["kubernetes"]["apiservers"] == [OWN]
    config["kubernetes"]["apiservers"] = [url]
    return config


def kubeconfig(lab: HighAvailability) -> Path:
    """Write a kubeconfig of the profile's service account, as pods use it, with the rights of the profile only."""
    return lab.kubeconfig("daemonset", {"token": _token(lab.plane)})


@cache
def _token(plane: ControlPlane) -> str:
    with plane.writer() as writer:
        writer.create(CORE, {"metadata": {"name": NAMESPACE}})
        writer.create(f"{CORE}/{NAMESPACE}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
        for right in yaml.safe_load_all((PROFILE / "rights.yaml").read_text()):
            namespace = right["metadata"].get("namespace")
            inside = f"/namespaces/{namespace}" if namespace else ""
            writer.create(f"{RBAC}{inside}/{right['kind'].lower()}s", right)
        plane.until_permitted(NAMESPACE, ACCOUNT, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
        return writer.service_account_token(NAMESPACE, ACCOUNT)
