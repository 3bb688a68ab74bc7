"""`watchslo rbac`: prints the least permissions of a configuration as roles and bindings, ready for `kubectl apply`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from watchslo.app import logs
from watchslo.app.session import run_on_loop
from watchslo.config.loading import load
from watchslo.config.model import Config
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.connect import connect
from watchslo.kube.credentials import CredentialSource
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.limiter import Limiter
from watchslo.model import SERVICE
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.rbac.permissions import Permission, required_permissions
from watchslo.rbac.roles import PolicyRule, Role, build_roles
from watchslo.rbac.watched_resources import needs_discovery, reads_secrets, watch_permissions
from watchslo.watch.failure import Failure

HEADER = "# Written by `watchslo rbac`. Do not edit: change the configuration and run the command again.\n"
LEFT_OUT = "the configuration watches secrets, but these roles do not permit it: exclude them, or add --include-secrets"
RBAC = "rbac.authorization.k8s.io"
LONGEST_LINE = 120  # characters


@dataclass(frozen=True, slots=True)
class RbacOptions:
    """The options of `watchslo rbac`: whose roles these are, and whether they may include secrets.

    A user or a group takes the place of the service account, whose name the roles have all the same.
    """

    namespace: str = "watchslo"
    service_account: str = "watchslo"
    include_secrets: bool = False
    user: str | None = None
    group: str | None = None

    @property
    def subject(self) -> dict[str, str]:
        """The subject of the bindings; raises ConfigError for a user and a group at once."""
        if self.user is not None and self.group is not None:
            raise ConfigError("--user and --group: the roles have one subject; remove one of the options")
        if self.user is not None:
            return {"kind": "User", "apiGroup": RBAC, "name": self.user}
        if self.group is not None:
            return {"kind": "Group", "apiGroup": RBAC, "name": self.group}
        return {"kind": "ServiceAccount", "name": self.service_account, "namespace": self.namespace}


def rbac(file: Path | None, kubeconfig: Path | None, context: str | None, options: RbacOptions) -> None:
    """Print roles and bindings; raises ConfigError or ConnectError."""
    config = load(file)[0]
    catalogue = None
    if needs_discovery(config):
        logs.set_up("console", "warning")  # on stderr: the roles are on stdout
        kubeconfig_path = str(kubeconfig) if kubeconfig else config.kubernetes.kubeconfig
        catalogue = run_on_loop(_discover(connect(kubeconfig_path, context or config.kubernetes.context), config))
    text, left_out = manifests(config, catalogue, options)
    click.echo(text, nl=False)
    if left_out:
        click.echo(f"watchslo: {LEFT_OUT}", err=True)


def manifests(config: Config, catalogue: Catalogue | None, options: RbacOptions) -> tuple[str, bool]:
    """Return the YAML, and whether secrets were left out of it; raises ConfigError."""
    watched = list(watch_permissions(config, catalogue))
    kept = [permission for permission in watched if options.include_secrets or not reads_secrets(permission)]
    left_out = len(kept) < len(watched)
    hint = f"# {LEFT_OUT}\n" if left_out else ""
    return HEADER + hint + roles_text(required_permissions(config, kept), options), left_out


def roles_text(permissions: Iterable[Permission], options: RbacOptions) -> str:
    """Return the YAML of the roles that grant these permissions, with their bindings."""
    roles = build_roles(permissions)
    documents = [text for role in roles for text in (_role(role, options), _binding(role, options))]
    return "".join(_legend(roles)) + "---\n".join(documents)


async def _discover(connection: CredentialSource, config: Config) -> Catalogue:
    """Return what the cluster serves now."""
    apiserver = Apiserver(SERVICE, connection, Limiter(config.limits.requests_per_second))
    async with apiserver.client:
        catalogue = await Discovery(lambda: apiserver.client).refresh()
    if isinstance(catalogue, Failure):
        raise ConnectError(catalogue.message)
    return catalogue


def _legend(roles: Iterable[Role]) -> Iterator[str]:
    """Yield the lines that explain the comments of the rules."""
    features = sorted({feature for role in roles for rule in role.rules for feature in rule.features})
    widest = max(len(feature.name) for feature in features)
    yield "# The comment above each rule names the features that need it:\n"
    yield from (f"#   {feature.name:{widest}}  {feature.explanation}\n" for feature in features)


def _role(role: Role, options: RbacOptions) -> str:
    return (
        _yaml(_head(_kind(role), role, options))
        + "rules:\n"
        + "".join(line for rule in role.rules for line in _policy_rule(rule))
    )


def _binding(role: Role, options: RbacOptions) -> str:
    reference = {"apiGroup": RBAC, "kind": _kind(role), "name": options.service_account}
    return _yaml(_head(f"{_kind(role)}Binding", role, options) | {"roleRef": reference, "subjects": [options.subject]})


def _kind(role: Role) -> str:
    return "ClusterRole" if role.namespace is None else "Role"


def _head(kind: str, role: Role, options: RbacOptions) -> dict[str, Any]:
    namespace = {} if role.namespace is None else {"namespace": role.namespace}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": options.service_account, **namespace}}


def _policy_rule(rule: PolicyRule) -> Iterator[str]:
    """Yield a comment with the features, then the rule as an entry of a YAML list."""
    yield f"  # {', '.join(feature.name for feature in rule.features)}\n"
    objects: dict[str, Any] = {"apiGroups": [rule.group], "resources": [*rule.resources]}
    if rule.path is not None:
        objects = {"nonResourceURLs": [rule.path]}
    names = {} if rule.name is None else {"resourceNames": [rule.name]}
    text = _yaml({**objects, **names, "verbs": [*rule.verbs]})
    yield from (f"  {'- ' if number == 0 else '  '}{line}\n" for number, line in enumerate(text.splitlines()))


def _yaml(document: Mapping[str, Any]) -> str:
    """Write YAML in the given order; short lists stay on one line."""
    return yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=None, width=LONGEST_LINE)
