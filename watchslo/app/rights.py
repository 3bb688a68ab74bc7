"""`watchslo rbac`: the least rights of a configuration, as YAML that can be applied."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from watchslo.app.session import run_on_loop
from watchslo.config import Config, load
from watchslo.errors import ConnectError
from watchslo.kube.access import Connection
from watchslo.kube.connect import connect
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.limiter import Limiter
from watchslo.model import SERVICE
from watchslo.monitor.apiserver import Apiserver
from watchslo.rights.needs import needs
from watchslo.rights.roles import Role, Rule, roles
from watchslo.rights.watched import asks_the_cluster, is_secret, watched
from watchslo.watch.failure import Failure

HEADER = "# Written by `watchslo rbac`: change the configuration and write it anew, instead of this.\n"
LEFT_OUT = "secrets are watched by the configuration and left out here: exclude them there, or say --include-secrets"
RBAC = "rbac.authorization.k8s.io"
LONGEST_LINE = 120  # characters


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line asks: rights for which service account, and whether these may be for secrets."""

    namespace: str = "watchslo"
    service_account: str = "watchslo"
    include_secrets: bool = False


def rbac(file: Path | None, kubeconfig: Path | None, context: str | None, question: Question) -> None:
    """Prints roles and bindings; raises ConfigError or ConnectError."""
    config = load(file)[0]
    catalogue = None
    if asks_the_cluster(config):
        told = str(kubeconfig) if kubeconfig else config.kubernetes.kubeconfig
        catalogue = run_on_loop(_discover(connect(told, context or config.kubernetes.context), config))
    text, left_out = manifests(config, catalogue, question)
    click.echo(text, nl=False)
    if left_out:
        click.echo(f"watchslo: {LEFT_OUT}", err=True)


def manifests(config: Config, catalogue: Catalogue | None, question: Question) -> tuple[str, bool]:
    """The YAML, and whether secrets were left out of it; raises ConfigError."""
    reads = list(watched(config, catalogue))
    kept = [need for need in reads if question.include_secrets or not is_secret(need)]
    left_out = len(kept) < len(reads)
    made = roles(needs(config, kept))
    documents = [text for role in made for text in (_role(role, question), _binding(role, question))]
    head = HEADER + (f"# {LEFT_OUT}\n" if left_out else "") + "".join(_legend(made))
    return head + "---\n".join(documents), left_out


async def _discover(connection: Connection, config: Config) -> Catalogue:
    """What the cluster serves now."""
    apiserver = Apiserver(SERVICE, connection, Limiter(config.limits.requests_per_second))
    async with apiserver.client:
        catalogue = await Discovery(lambda: apiserver.client).refresh()
    if isinstance(catalogue, Failure):
        raise ConnectError(catalogue.message)
    return catalogue


def _legend(made: Iterable[Role]) -> Iterator[str]:
    """What the names beside the rules mean."""
    features = sorted({feature for role in made for rule in role.rules for feature in rule.features})
    widest = max(len(feature.name) for feature in features)
    yield "# The rules are for:\n"
    yield from (f"#   {feature.name:{widest}}  {feature.words}\n" for feature in features)


def _role(role: Role, question: Question) -> str:
    return (
        _yaml(_head(_kind(role), role, question))
        + "rules:\n"
        + "".join(line for rule in role.rules for line in _rule(rule))
    )


def _binding(role: Role, question: Question) -> str:
    subject = {"kind": "ServiceAccount", "name": question.service_account, "namespace": question.namespace}
    reference = {"apiGroup": RBAC, "kind": _kind(role), "name": question.service_account}
    return _yaml(_head(f"{_kind(role)}Binding", role, question) | {"roleRef": reference, "subjects": [subject]})


def _kind(role: Role) -> str:
    return "ClusterRole" if role.namespace is None else "Role"


def _head(kind: str, role: Role, question: Question) -> dict[str, Any]:
    place = {} if role.namespace is None else {"namespace": role.namespace}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": question.service_account, **place}}


def _rule(rule: Rule) -> Iterator[str]:
    """What it is for, and after that the rule itself, as an entry of a list."""
    yield f"  # {', '.join(feature.name for feature in rule.features)}\n"
    told = {"apiGroups": [rule.group], "resources": [*rule.resources]}
    named = {} if rule.name is None else {"resourceNames": [rule.name]}
    text = _yaml({**told, **named, "verbs": [*rule.verbs]})
    yield from (f"  {'- ' if number == 0 else '  '}{line}\n" for number, line in enumerate(text.splitlines()))


def _yaml(document: Mapping[str, Any]) -> str:
    """In the order that is given; lists of words stay on a line, as long as there is room."""
    return yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=None, width=LONGEST_LINE)
