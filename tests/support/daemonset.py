"""The profiles as they are shipped, above all `control-plane`: its configuration, and the rights of its account."""

import contextlib
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.control_plane import ControlPlane
from tests.support.high_availability import HighAvailability
from tests.support.writer import StatusError

PROFILES = Path(__file__).parents[2] / "deploy/chart/profiles"
CONTROL_PLANE = "control-plane"
OWN = "https://${HOST_IP}:6443"
NAMESPACE = ACCOUNT = "watchslo"
CORE = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def shipped(profile: str) -> dict[str, Any]:
    """Return the configuration of a profile, in which variables are not replaced."""
    config: dict[str, Any] = yaml.safe_load((PROFILES / profile / "watchslo.yaml").read_text())
    return config


def profile_of(url: str) -> dict[str, Any]:
    """Return the configuration of the instance next to the apiserver at a URL, whose port is not the usual one here."""
    config = shipped(CONTROL_PLANE)
    assert config["kubernetes"]["apiservers"] == [OWN]
    config["kubernetes"]["apiservers"] = [url]
    return config


def kubeconfig(lab: HighAvailability, profile: str = CONTROL_PLANE) -> Path:
    """Write a kubeconfig of a profile's service account, as pods use it, with the rights of the profile only."""
    return lab.kubeconfig(f"profile-{profile}", {"token": _token(lab.plane, profile)})


@cache
def _token(plane: ControlPlane, profile: str) -> str:
    """Return a token of an account that is named like its profile: the profiles all name their account `watchslo`."""
    account = f"{ACCOUNT}-{profile}"
    with plane.writer() as writer:
        with contextlib.suppress(StatusError):  # another profile created it
            writer.create(CORE, {"metadata": {"name": NAMESPACE}})
        writer.create(f"{CORE}/{NAMESPACE}/serviceaccounts", {"metadata": {"name": account}})
        for right in yaml.safe_load_all((PROFILES / profile / "rights.yaml").read_text()):
            writer.create(*_renamed(right, account))
        plane.until_permitted(NAMESPACE, account, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]})
        return writer.service_account_token(NAMESPACE, account)


def _renamed(right: dict[str, Any], account: str) -> tuple[str, dict[str, Any]]:
    """Return the collection of a role or a binding, and the object, both for an account of this name."""
    metadata = right["metadata"] | {"name": account}
    inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    renamed = right | {"metadata": metadata}
    if "roleRef" in right:
        subjects = [subject | {"name": account} for subject in right["subjects"]]
        renamed |= {"roleRef": right["roleRef"] | {"name": account}, "subjects": subjects}
    return f"{RBAC}{inside}/{right['kind'].lower()}s", renamed
