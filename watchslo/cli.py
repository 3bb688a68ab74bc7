"""The commands: each parses its arguments, calls the app, and turns the result into an exit code."""

import os
import signal
import sys
from pathlib import Path
from typing import Any, Literal, NoReturn

import click
from click.shell_completion import ShellComplete, get_completion_class

from watchslo import DOCUMENTATION, __version__
from watchslo.errors import WatchsloError, error_location

STRATEGIES = ("tail", "paged", "parallel", "stream", "cache")
REHEARSED = (*STRATEGIES, "relist", "relist-paged", "watch-zero")
LARGEST_SIZE = 2**50
EXIT_UNHEALTHY = 1
EXIT_UNUSABLE = 2  # also click's own code for bad arguments
EXIT_SIGNAL = 128  # and the number of the signal, as shells have it
INIT_PID = 1  # of the first process of a container, for which Linux ignores signals that it does not handle itself

config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="Configuration file; default: built-in defaults."
)
kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Kubeconfig file; default: the service account in a pod, else $KUBECONFIG.",
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
histograms_option = click.option(
    "--histograms",
    type=click.Choice(["classic", "native"]),
    default="classic",
    show_default=True,
    help="How Prometheus stores our histograms of latencies. If it has both, classic.",
)
listen_option = click.option("--listen", metavar="HOST:PORT", help="Address to serve at; port 0 takes a free port.")


class Command(click.Command):
    """A command whose example names the program as it was called."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the whole first sentence: lists of commands wrap it, and shells show it next to completions."""
        del limit
        return (self.help or "").partition("\n")[0]

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        program = context.find_root().info_name or "watchslo"
        if self.epilog:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write(f"{' ' * formatter.current_indent}{self.epilog.replace('watchslo', program, 1)}\n")


class Commands(click.Group):
    """The group of all commands."""

    command_class = Command


def _seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of `90`, `90s` or `1m30s`."""
    from watchslo.config.values import parse_duration  # noqa: PLC0415 - it imports slowly, and few options need it

    if value is None:
        return None
    try:
        return parse_duration(value if value[-1:].isalpha() else f"{value}s")
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def _size(context: click.Context, parameter: click.Parameter, value: str) -> int:
    """Return the bytes of `256Mi` or `2Gi`."""
    from watchslo.config.values import parse_size  # noqa: PLC0415 - as above

    try:
        return parse_size(value, 1, LARGEST_SIZE)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="watchslo")
def commands() -> None:
    """Measure how late the watch events of a Kubernetes cluster are."""


@commands.command(epilog="Example:  watchslo run --context prod --listen 127.0.0.1:9477")
@config_option
@kubeconfig_option
@context_option
@listen_option
@click.option("--log-format", type=click.Choice(["json", "console"]), help="Default: json.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Default: info.")
@click.option(
    "--authorization",
    type=click.Choice(["none", "kubernetes"]),
    help="Whether HTTP clients need a token that the cluster authorizes; default: none.",
)
@click.option(
    "--cert-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Serve TLS with the files tls.crt and tls.key of this directory; default: plain HTTP.",
)
def run(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    listen: str | None,
    log_format: Literal["json", "console"] | None,
    log_level: str | None,
    authorization: Literal["none", "kubernetes"] | None,
    cert_dir: Path | None,
) -> None:
    """Run the daemon: measure a cluster and serve the figures."""
    from watchslo.app.imports import hidden  # noqa: PLC0415 - each command imports only its own parts

    with hidden("rich"):  # structlog would import it for tracebacks in colour, which we never log: 3 MiB
        from watchslo.app.run import Overrides, run  # noqa: PLC0415

    run(
        config,
        Overrides(
            kubeconfig=kubeconfig,
            context=context,
            listen=listen,
            log_format=log_format,
            log_level=log_level,
            authorization=authorization,
            cert_dir=cert_dir,
        ),
    )


@commands.command(epilog="Example:  watchslo demo --duration 60s")
@click.option("--duration", callback=_seconds, help="How long to run, such as 60s; default: until Ctrl-C.")
@click.option("--fault", metavar="NAME", help="Inject only this fault, repeatedly; `help` lists all faults.")
@click.option("--listen", metavar="HOST:PORT", help="Address to serve at; default: a free port of 127.0.0.1.")
def demo(duration: float | None, fault: str | None, listen: str | None) -> None:
    """Measure a simulated cluster with changing faults."""
    from watchslo.app.demo import demo, faults  # noqa: PLC0415 - each command imports only its own parts

    if fault == "help":
        click.echo(faults())
        return
    demo(duration, listen, fault)


@commands.command(
    epilog="Example:  watchslo check --duration 60s --resource pods --resource leases.coordination.k8s.io"
)
@config_option
@kubeconfig_option
@context_option
@click.option("--duration", default="60s", show_default=True, help="How long to measure, 5s to 5m.")
@click.option("--threshold", help="Threshold of the objective; default: that of the configuration (1s).")
@click.option("--resource", "resources", multiple=True, help="Measure only this resource; can be repeated.")
@namespace_option
@output_option
def check(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    duration: str,
    threshold: str | None,
    resources: tuple[str, ...],
    namespace: str | None,
    output: Literal["table", "json"],
) -> None:
    """Measure a cluster once and print the result.

    Exits with 0 if the verdict is good, 1 if it is bad, 2 if it is unknown.
    """
    from watchslo.app.check import CheckOptions, check  # noqa: PLC0415 - each command imports only its own parts

    options = CheckOptions(duration=duration, threshold=threshold, resources=resources, namespace=namespace)
    sys.exit(check(config, kubeconfig, context, options, output))


@commands.command(epilog="Example:  watchslo verify --duration 10m --each --resource pods -o json")
@config_option
@kubeconfig_option
@context_option
@click.option("--duration", default="5m", show_default=True, help="How long to verify, 5s to 24h.")
@click.option("--each", is_flag=True, help="Watch every apiserver behind the service, and compare them.")
@click.option(
    "--compare",
    metavar="NAME",
    multiple=True,
    help="Context, or URL of an apiserver of the same storage: compare them; name two or more.",
)
@click.option(
    "--tolerance",
    callback=_seconds,
    default="50ms",
    show_default=True,
    help="With --compare: how much slower than the fastest an apiserver may be.",
)
@click.option("--replay", is_flag=True, help="Begin at the oldest revision in reach: verify the past as well.")
@click.option("--inventory", is_flag=True, help="List all objects first, so that the types of events are verified too.")
@click.option("--resource", "resources", multiple=True, help="Watch only this resource; can be repeated.")
@namespace_option
@output_option
def verify(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    duration: str,
    each: bool,  # noqa: FBT001 - a flag of the command line
    compare: tuple[str, ...],
    tolerance: float,
    replay: bool,  # noqa: FBT001 - a flag of the command line
    inventory: bool,  # noqa: FBT001 - a flag of the command line
    resources: tuple[str, ...],
    namespace: str | None,
    output: Literal["table", "json"],
) -> None:
    """Verify that watches lose, repeat and reorder no event.

    Every event is read a second time, and compared. Exits with 0 if no guarantee was violated, 1 if one was or an
    apiserver of --compare is slower, 2 if no event arrived.
    """
    from watchslo.app.verify import VerifyOptions, verify  # noqa: PLC0415 - each command imports only its own parts

    options = VerifyOptions(duration, resources, each, replay, inventory, compare, tolerance, namespace)
    sys.exit(verify(config, kubeconfig, context, options, output))


@commands.command(epilog="Example:  watchslo top http://127.0.0.1:9477")
@click.argument("url", required=False)
@kubeconfig_option
@context_option
@click.option("--token-file", type=click.Path(path_type=Path), help="File with a token for the daemon.")
@click.option(
    "--ca-file", type=click.Path(path_type=Path), help="CA of the daemon's certificate; default: the system's CAs."
)
@click.option("--insecure", is_flag=True, help="Do not verify the daemon's certificate.")
@click.option("--once", is_flag=True, help="Print one table and exit; without a URL, after measuring for 10 s.")
@click.option("--watch", metavar="NAME", help="With --once: print everything about this watch instead of the table.")
def top(
    url: str | None,
    kubeconfig: Path | None,
    context: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,  # noqa: FBT001 - a flag of the command line
    once: bool,  # noqa: FBT001 - the same
    watch: str | None,
) -> None:
    """Show live figures of a daemon or a cluster in a terminal.

    With the URL of a daemon (watchslo run or demo), it shows the figures of that daemon. Without a URL, it measures the
    cluster of the current kubeconfig itself until you quit.

    With --once, it exits with 0 if a watch is open, 2 if none is.
    """
    from watchslo.app.http_endpoint import DaemonCredentials  # noqa: PLC0415 - the same
    from watchslo.app.top import TopOptions, top  # noqa: PLC0415 - each command imports only its own parts

    sys.exit(top(TopOptions(url, DaemonCredentials(token_file, ca_file, insecure), kubeconfig, context, once, watch)))


@commands.command(epilog="Example:  watchslo view --once --service watchslo-sharded.watchslo.svc:9477")
@click.argument("urls", metavar="[URL]...", nargs=-1)
@click.option(
    "--service",
    "services",
    metavar="URL",
    multiple=True,
    help="URL whose host has the addresses of all instances, such as a headless Service; can be repeated.",
)
@click.option("--token-file", type=click.Path(path_type=Path), help="File with a token for the instances.")
@click.option(
    "--ca-file", type=click.Path(path_type=Path), help="CA of the instances' certificates; default: the system's CAs."
)
@click.option("--insecure", is_flag=True, help="Do not verify the certificates of the instances.")
@click.option("--once", is_flag=True, help="Print one table and exit, instead of serving the page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and exit, as /api/v1/overview has it.")
@click.option("--listen", metavar="HOST:PORT", help="Address to serve at; default: 127.0.0.1:9478.")
@click.option(
    "--authorization",
    type=click.Choice(["none", "kubernetes"]),
    default="none",
    show_default=True,
    help="Whether readers of the page need a token that the cluster authorizes.",
)
@click.option(
    "--cert-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Serve TLS with the files tls.crt and tls.key of this directory; default: plain HTTP.",
)
@kubeconfig_option
@context_option
def view(
    urls: tuple[str, ...],
    services: tuple[str, ...],
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,  # noqa: FBT001 - a flag of the command line
    once: bool,  # noqa: FBT001 - the same
    as_json: bool,  # noqa: FBT001 - the same
    listen: str | None,
    authorization: Literal["none", "kubernetes"],
    cert_dir: Path | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Show all instances of a cluster on one page.

    Asks each instance for its status and serves the verdict on all of them: the worst of theirs, and never a good one
    if an instance does not answer. It also shows what does not fit together, such as a missing shard, or a watch that
    is late for one instance and in time for another one. The cluster is only asked with --authorization kubernetes.

    With --once or --json, it prints one result and exits with 0 if no watch is late, 1 if one is, 2 if neither is
    certain.
    """
    from watchslo.app.http_endpoint import DaemonCredentials  # noqa: PLC0415 - the same
    from watchslo.app.view import Protection, ViewOptions, view  # noqa: PLC0415 - as above

    output: Literal["page", "table", "json"] = "json" if as_json else "table" if once else "page"
    protection = Protection(authorization, cert_dir, kubeconfig, context)
    credentials = DaemonCredentials(token_file, ca_file, insecure)
    sys.exit(view(ViewOptions(urls, services, credentials, listen, output), protection))


@commands.command(epilog="Example:  watchslo report --since 2h -o incident.html")
@click.argument("url", required=False)
@click.option(
    "--since",
    metavar="TIME",
    default="1h",
    show_default=True,
    help="Begin of the period: so long ago, or a time such as 2026-03-01T14:00:00Z.",
)
@click.option("--until", metavar="TIME", help="End of the period, in the same form; default: now.")
@click.option("--prometheus", metavar="URL", help="Ask the Prometheus that scrapes watchslo instead of a daemon.")
@click.option(
    "--job-selector", metavar="S", help='With --prometheus: matchers of the targets; default: job="watchslo".'
)
@click.option("--cluster-label", metavar="L", help="With --prometheus: label that names the cluster.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown"]),
    help="Default: html, or markdown if the name of the file ends in .md.",
)
@click.option("--brief", is_flag=True, help="Write only a few lines, for one message in a chat.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write; default: standard output."
)
@click.option("--token-file", type=click.Path(path_type=Path), help="File with a token for the daemon, or Prometheus.")
@click.option(
    "--ca-file", type=click.Path(path_type=Path), help="CA of the server's certificate; default: the system's CAs."
)
@click.option("--insecure", is_flag=True, help="Do not verify the server's certificate.")
def report(
    url: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,  # noqa: FBT001 - a flag of the command line
    **options: Any,
) -> None:
    """Write a report on an incident: what was late, and why.

    One file that needs nothing else: the answer first, then the timeline, the charts, the causes, and what was not
    known. It comes from a running daemon (by default, that of this machine), which remembers a day, and curves for an
    hour; or from Prometheus, for any time that it keeps. It has no names, labels or contents of objects.

    Exits with 0 if the report is written, whatever it says, 2 if not.
    """
    from watchslo.app.http_endpoint import DaemonCredentials  # noqa: PLC0415 - each command imports only its own parts
    from watchslo.app.report import ReportOptions, report  # noqa: PLC0415 - the same

    if url is not None and options["prometheus"] is not None:
        raise click.UsageError("Pass the URL of a daemon or --prometheus, not both.")
    if options["prometheus"] is None and (options["job_selector"] or options["cluster_label"]):
        raise click.UsageError("--job-selector and --cluster-label need --prometheus.")
    report(ReportOptions(url, **options, credentials=DaemonCredentials(token_file, ca_file, insecure)))


@commands.command(epilog="Example:  watchslo rehearse pods deployments.apps --repeat 3")
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Rehearse all resources but secrets; start no run after 15 minutes.")
@kubeconfig_option
@context_option
@click.option("-n", "--namespace", help="List only objects of this namespace; default: all namespaces.")
@click.option(
    "--strategy",
    "strategies",
    type=click.Choice(["all", *REHEARSED]),
    multiple=True,
    default=STRATEGIES,
    show_default=True,
    help="List strategy; can be repeated.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1, max=100),
    default=1,
    show_default=True,
    help="Runs of each strategy, in turns.",
)
@click.option(
    "--max-bytes",
    metavar="SIZE",
    callback=_size,
    default="256Mi",
    show_default=True,
    help="Refuse a resource whose list is larger, as estimated from its first objects.",
)
@click.option("--dry-run", is_flag=True, help="Only count the objects, and print which runs there would be.")
@output_option
def rehearse(
    resources: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    output: Literal["table", "json"],
    **options: Any,
) -> None:
    """Find out how your informers should list.

    Starts an informer in different ways, one after the other: it lists, opens a watch, keeps it open for a second, and
    stops. It receives whole objects as JSON. By default it rehearses the first five strategies:

    \b
    tail          lists nothing and watches: for clients that keep no objects
    paged         lists in pages of 500, then watches from the list's revision
    parallel      opens the watch with the first page, and lists the other pages at the same time
    stream        receives the objects in the watch (WatchList)
    cache         lists all objects at once from the apiserver's cache (resourceVersion=0)
    relist        lists again as client-go does after a disconnect (resourceVersion=n, without a limit)
    relist-paged  lists again in pages (resourceVersion=n, resourceVersionMatch=NotOlderThan)
    watch-zero    lists nothing: a watch from resourceVersion=0 brings the cached objects

    It only reads. A run of any strategy except tail costs the apiserver what the start of one controller costs: it
    lists every object, as fast as the apiserver answers.

    Exits with 0 if all runs were done, whatever their results, 2 if one was impossible, 130 if interrupted.
    """  # noqa: D301 - click keeps the lines after this character
    from watchslo.app.rehearse import rehearse  # noqa: PLC0415 - each command imports only its own parts
    from watchslo.rehearse.options import RehearseOptions  # noqa: PLC0415 - the same

    sys.exit(rehearse(kubeconfig, context, RehearseOptions(resources, **options), output))


@commands.command(
    epilog="Example:  watchslo doctor --config watchslo.yaml --prometheus http://prometheus.monitoring:9090"
)
@config_option
@kubeconfig_option
@context_option
@click.option("-n", "--namespace", default="watchslo", show_default=True, help="Namespace that watchslo runs in.")
@click.option("--instance", metavar="URL", help="A running instance to ask.")
@click.option("--prometheus", metavar="URL", help="The Prometheus that scrapes watchslo.")
@click.option("--alertmanager", metavar="URL", help="The Alertmanager that gets the alerts.")
@click.option("--job-selector", metavar="S", help='Matchers of the targets; default: job="watchslo".')
@click.option("--cluster-label", metavar="L", help="Label that names the cluster, as for `watchslo rules`.")
@histograms_option
@click.option(
    "--dashboards",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Dashboards to try; default: those of the checkout, or else all metrics.",
)
@click.option("--token-file", type=click.Path(path_type=Path), help="File with a token for the instance.")
@click.option(
    "--prometheus-token-file",
    type=click.Path(path_type=Path),
    help="File with a token for Prometheus and Alertmanager.",
)
@click.option(
    "--ca-file", type=click.Path(path_type=Path), help="CA of these servers' certificates; default: the system's CAs."
)
@click.option("--insecure", is_flag=True, help="Do not verify these servers' certificates.")
@output_option
def doctor(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    output: Literal["table", "json"],
    **options: Any,
) -> None:
    """Find out whether a deployment is right, and how to fix it.

    Checks the rights, the addresses of the apiservers, the clocks, and the monitors of the Prometheus operator; with
    their URLs also a running instance, Prometheus (scrapes, rules, data of the dashboards) and Alertmanager. Run it
    with the configuration and the identity of the daemon, such as in its pod. It only reads, and takes up to a minute.

    Exits with 0 if no problem was found, 1 if there is one, 2 if it could not start.
    """
    from watchslo.app.doctor import DoctorOptions, doctor  # noqa: PLC0415 - each command imports only its own parts
    from watchslo.app.http_endpoint import DaemonCredentials  # noqa: PLC0415 - the same

    credentials = DaemonCredentials(options.pop("token_file"), options.pop("ca_file"), options.pop("insecure"))
    sys.exit(doctor(config, kubeconfig, context, DoctorOptions(**options, credentials=credentials), output))


@commands.command(
    epilog="Example:  watchslo rules --config watchslo.yaml --rule-labels release=prometheus | kubectl apply -f -"
)
@config_option
@click.option(
    "--format",
    type=click.Choice(
        ["prometheusrule", "plain", "thanos", "mimir", "inhibitions", "pyrra", "sloth", "openslo", "grafana"]
    ),
    default="prometheusrule",
    show_default=True,
    help="For the Prometheus operator, for rule_files of Prometheus, for the ruler of Thanos, for `mimirtool rules "
    "load`, or for the configuration of Alertmanager; or the objectives alone, for Pyrra, Sloth, or a tool that reads "
    "OpenSLO; or the alerts alone, for Grafana to evaluate.",
)
@click.option(
    "--fleet",
    type=click.Choice(["cluster", "global"]),
    help="The rules of a fleet instead: those by which each cluster sums itself up in at most 20 series, or those of "
    "the global level that reads the series of all clusters.",
)
@click.option("--cluster-label", metavar="L", help="Label that names the cluster, if Prometheus scrapes several.")
@click.option(
    "--replica-label",
    metavar="L",
    help="With --fleet global: the label that distinguishes the Prometheus replicas of a cluster; default: replica.",
)
@click.option("--job-selector", metavar="S", help='Matchers of the targets; default: job="watchslo".')
@click.option(
    "--rule-labels",
    metavar="K=V",
    multiple=True,
    help="Label of the PrometheusRule, or of the objects of Pyrra or Sloth; can be repeated.",
)
@click.option(
    "--datasource-uid", metavar="UID", help="With --format grafana: the data source to query; default: prometheus."
)
@click.option("--runbooks", metavar="URL", help=f"Base URL of the runbooks; default: {DOCUMENTATION}/runbooks.")
@click.option(
    "--shrink",
    type=click.IntRange(min=1),
    default=1,
    help="Divide all windows, waits and intervals by this number, to see alerts fire in a trial.",
)
@histograms_option
def rules(config: Path | None, **options: Any) -> None:
    """Print the recording rules and alerts for a configuration."""
    from watchslo.app.rules import RulesOptions, rules  # noqa: PLC0415 - each command imports only its own parts

    rules(config, RulesOptions(**options))


@commands.command(epilog="Example:  watchslo rbac --config watchslo.yaml | kubectl apply -f -")
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
    from watchslo.app.rbac import RbacOptions, rbac  # noqa: PLC0415 - each command imports only its own parts

    rbac(config, kubeconfig, context, RbacOptions(namespace, service_account, include_secrets, user, group))


@commands.command(epilog="Example:  watchslo validate watchslo.yaml")
@click.argument("file", type=click.Path(path_type=Path))
def validate(file: Path) -> None:
    """Check a configuration file."""
    from watchslo.config.loading import load  # noqa: PLC0415 - each command imports only its own parts

    load(file)
    click.echo(f"{file}: valid")


@commands.command(epilog="Example:  watchslo healthy --url http://127.0.0.1:9477")
@config_option
@click.option("--url", help="URL of the daemon; default: the address in the configuration.")
def healthy(config: Path | None, url: str | None) -> None:
    """Check the health of a local daemon.

    For probes of containers. A liveness probe should pass --url: then an edited configuration that the running daemon
    refuses does not make the probe fail.

    Exits with 0 if the daemon is healthy, 1 if not.
    """
    from watchslo.app.healthy import healthy  # noqa: PLC0415 - each command imports only its own parts

    try:
        click.echo(healthy(config, url))
    except WatchsloError as error:
        _give_up(str(error), EXIT_UNHEALTHY)


@commands.command(epilog="Example:  watchslo completion bash > ~/.local/share/bash-completion/completions/watchslo")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for your shell.

    For zsh, save it as _watchslo in a folder of $fpath; for fish, as ~/.config/fish/completions/watchslo.fish. Or
    source it in the startup file of your shell.
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(commands, {}, "watchslo", "_WATCHSLO_COMPLETE").source())


def kubectl() -> None:
    """Run the `kubectl-watchslo` program, the plugin behind `kubectl watchslo`."""
    main("kubectl watchslo")


def kubectl_complete() -> None:
    """Run the `kubectl_complete-watchslo` program, which completes arguments after `kubectl watchslo`.

    kubectl expects one candidate per line, its description after a tab, and a last line `:4`, or `:0` if files fit
    (k8s.io/kubectl, plugin_completion.go; the numbers are cobra's ShellCompDirective).
    """
    *words, begun = sys.argv[1:] or [""]
    found = ShellComplete(commands, {}, "kubectl watchslo", "").get_completions(words, begun)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help or ''}")
    click.echo(":0" if any(item.type == "file" for item in found) else ":4")


def main(program: str = "watchslo") -> None:
    """Run the `watchslo` program; any error is printed as one sentence, never as a traceback."""
    if os.getpid() == INIT_PID:
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(EXIT_SIGNAL + number))
    try:
        commands(prog_name=program)
    except WatchsloError as error:
        _give_up(str(error))
    except Exception as error:  # noqa: BLE001 - the outermost handler
        _give_up(f"internal error: {error_location(error)}; please report it")


def _give_up(message: str, code: int = EXIT_UNUSABLE) -> NoReturn:
    click.echo(f"watchslo: {message}", err=True)
    sys.exit(code)
