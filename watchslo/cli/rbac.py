"""The command `watchslo rbac`."""

from pathlib import Path

import click

from watchslo.cli.command import Command
from watchslo.cli.options import config_option, context_option, kubeconfig_option


@click.command(cls=Command, epilog="Example:  watchslo rbac --config watchslo.yaml | kubectl apply -f -")
@config_option
@kubeconfig_option
@context_option
@click.option("--namespace", default="watchslo", show_default=True, help="Namespace of the service account.")
@click.option(
    "--service-account", default="watchslo", show_default=True, help="Name of the service account and of its roles."
)
@click.option("--user", metavar="NAME", help="Bind the roles to this user, for commands in a terminal.")
@click.option("--group", metavar="NAME", help="Bind the roles to this group of users.")
@click.option("--include-secrets", is_flag=True, help="Allow reading secrets, if the configuration watches them.")
def rbac(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    service_account: str,
    user: str | None,
    group: str | None,
    *,
    include_secrets: bool,
) -> None:
    """Print the RBAC roles and bindings that a configuration needs.

    They grant nothing else. The command asks the cluster only if it must: to expand "*", and to find the API groups of
    resources that are configured without one.
    """
    from watchslo.app.rbac import RbacOptions, rbac

    rbac(config, kubeconfig, context, RbacOptions(namespace, service_account, include_secrets, user, group))
