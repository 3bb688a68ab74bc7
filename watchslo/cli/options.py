"""The options and types that several commands share."""

from pathlib import Path

import click

PATH = click.Path(path_type=Path)

config_option = click.option("--config", type=PATH, help="Configuration file; default: built-in defaults.")
kubeconfig_option = click.option(
    "--kubeconfig", type=PATH, help="Kubeconfig file; default: the service account in a pod, else $KUBECONFIG."
)
context_option = click.option("--context", help="Context of the kubeconfig.")
namespace_option = click.option(
    "-n", "--namespace", help="Namespace of the resources that are named; default: all namespaces."
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Print a table, or one JSON object.",
)
cert_dir_option = click.option(
    "--cert-dir",
    metavar="DIR",
    type=PATH,
    help="Serve TLS with the files tls.crt and tls.key of this directory; default: plain HTTP.",
)
job_selector_option = click.option(
    "--job-selector", metavar="S", help='Matchers of the targets; default: job="watchslo".'
)
histograms_option = click.option(
    "--histograms",
    type=click.Choice(["classic", "native"]),
    default="classic",
    show_default=True,
    help="How Prometheus stores our histograms of latencies. If it has both, classic.",
)


def to_seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of `90`, `90s` or `1m30s`; the callback of an option."""
    from watchslo.config.values import parse_duration

    if value is None:
        return None
    try:
        return parse_duration(value if value[-1:].isalpha() else f"{value}s")
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None
