"""The commands: parse arguments, call the app, turn its answer into an exit code."""

import sys
from pathlib import Path
from typing import Literal, NoReturn

import click
from click.shell_completion import ShellComplete, get_completion_class

from watchslo import __version__
from watchslo.errors import WatchsloError, whereabouts

STRATEGIES = ("tail", "paged", "parallel", "stream", "cache")
EXIT_UNHEALTHY = 1
EXIT_UNUSABLE = 2  # also click's own code for bad arguments

config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="Configuration file; without one, sensible defaults."
)
kubeconfig_option = click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig file; default: in-cluster, then $KUBECONFIG."
)
context_option = click.option("--context", help="Context of the kubeconfig.")
output_option = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
listen_option = click.option("--listen", metavar="HOST:PORT", help="Where to serve; port 0 takes a free one.")


class Command(click.Command):
    """A command whose example calls the program as the reader did."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence, whole: lists of commands wrap it, and shells show it beside what they complete."""
        del limit
        return (self.help or "").partition("\n")[0]

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        program = context.find_root().info_name or "watchslo"
        if self.epilog:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write(f"{' ' * formatter.current_indent}{self.epilog.replace('watchslo', program, 1)}\n")


class Commands(click.Group):
    """The program."""

    command_class = Command


def _seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The seconds of `90`, `90s` or `1m30s`."""
    from watchslo.config import parse_duration  # noqa: PLC0415 - only who names one waits for what reads it

    if value is None:
        return None
    try:
        return parse_duration(value if value[-1:].isalpha() else f"{value}s")
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="watchslo")
def commands() -> None:
    """How late are the watch events of a Kubernetes cluster?"""


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
    help="Whether readers must show a token; default: none.",
)
@click.option(
    "--cert-dir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Serve by TLS, with the tls.crt and tls.key in there; default: plain HTTP.",
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
    """Watch a cluster and serve what is measured."""
    from watchslo.app.run import Overrides, run  # noqa: PLC0415 - each command imports only its own parts

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
@click.option("--duration", callback=_seconds, help="For how long, such as 60s; default: until Ctrl-C.")
@click.option("--fault", metavar="NAME", help="Only this goes wrong, again and again; `help` lists all there are.")
@click.option("--listen", metavar="HOST:PORT", help="Where to serve; default: a free port of 127.0.0.1.")
def demo(duration: float | None, fault: str | None, listen: str | None) -> None:
    """Watch a simulated cluster in which things go wrong."""
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
@click.option("--threshold", help="What P99 must stay within; default: the configuration's (1s).")
@click.option("--resource", "resources", multiple=True, help="Measure only this resource; may be given again.")
@output_option
def check(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    duration: str,
    threshold: str | None,
    resources: tuple[str, ...],
    output: Literal["table", "json"],
) -> None:
    """Measure a cluster once.

    Exits with 0 if every measured watch is within the objective, 1 if one is beyond it, 2 if none could be measured.
    """
    from watchslo.app.check import Question, check  # noqa: PLC0415 - each command imports only its own parts

    question = Question(duration=duration, threshold=threshold, resources=resources)
    sys.exit(check(config, kubeconfig, context, question, output))


@commands.command(epilog="Example:  watchslo top http://127.0.0.1:9477")
@click.argument("url", required=False)
@kubeconfig_option
@context_option
@click.option("--token-file", type=click.Path(path_type=Path), help="File with the token that the daemon wants to see.")
@click.option(
    "--ca-file", type=click.Path(path_type=Path), help="CA of the daemon's certificate; default: the system's."
)
@click.option("--insecure", is_flag=True, help="Believe any certificate.")
@click.option("--once", is_flag=True, help="Print one table and end; without a URL after measuring for 10 s.")
def top(
    url: str | None,
    kubeconfig: Path | None,
    context: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    insecure: bool,  # noqa: FBT001 - a flag of the command line
    once: bool,  # noqa: FBT001 - the same
) -> None:
    """Look at a daemon, or at a cluster, in a terminal.

    With the URL of a daemon (watchslo run or demo) it shows what that measures; without, it measures the cluster of the
    current kubeconfig itself, for as long as you look.
    """
    from watchslo.app.top import Question, top  # noqa: PLC0415 - each command imports only its own parts
    from watchslo.app.top.sources import Credentials  # noqa: PLC0415 - the same

    top(Question(url, Credentials(token_file, ca_file, insecure), kubeconfig, context, once))


@commands.command(epilog="Example:  watchslo rehearse pods deployments.apps --repeat 3")
@click.argument("resources", metavar="RESOURCE...", nargs=-1, required=True)
@kubeconfig_option
@context_option
@click.option("-n", "--namespace", help="Only the objects of this namespace; default: all.")
@click.option(
    "--strategy",
    "strategies",
    type=click.Choice(["all", *STRATEGIES]),
    multiple=True,
    default=["all"],
    show_default=True,
    help="May be given again.",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="How often, in turns.")
@click.option(
    "--max-objects",
    type=click.IntRange(min=1),
    default=25_000,
    show_default=True,
    help="Refuse to list more than this.",
)
@output_option
def rehearse(
    resources: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    strategies: tuple[str, ...],
    repeat: int,
    max_objects: int,
    output: Literal["table", "json"],
) -> None:
    """Find out which list strategy your informers should use.

    Starts an informer by each strategy, one after the other: it lists whole objects, as JSON, until it knows them all
    and its watch is open, stays for a second, and goes. The strategies:

    \b
    tail      lists nothing and watches: for those who keep no objects
    paged     lists in pages of 500, then watches from the list's revision
    parallel  opens the watch with the first page, while the others come
    stream    lets the watch bring the objects (WatchList)
    cache     lists all at once from the apiserver's cache (resourceVersion=0)

    It only reads. A run of any strategy but tail costs the apiserver what the start of one controller does: every
    object is listed, as fast as it answers.

    Exits with 0 if all was rehearsed, whatever the verdict, 2 if something could not be, 130 when interrupted.
    """  # noqa: D301 - it is the character that tells click to keep the lines
    from watchslo.app.rehearse import Question, rehearse  # noqa: PLC0415 - each command imports only its own parts

    question = Question(resources, namespace, strategies, repeat, max_objects)
    sys.exit(rehearse(kubeconfig, context, question, output))


@commands.command(
    epilog="Example:  watchslo rules --config watchslo.yaml --rule-labels release=prometheus | kubectl apply -f -"
)
@config_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["prometheusrule", "plain", "inhibitions"]),
    default="prometheusrule",
    show_default=True,
    help="For the Prometheus operator, for rule_files of Prometheus, or for the configuration of Alertmanager.",
)
@click.option("--cluster-label", metavar="L", help="Label that tells clusters apart, where Prometheus scrapes several.")
@click.option("--job-selector", metavar="S", help='Matchers of the targets; default: job="watchslo".')
@click.option("--rule-labels", metavar="K=V", multiple=True, help="Label of the PrometheusRule; may be given again.")
@click.option("--runbooks", metavar="URL", help="Where the runbooks are; default: docs/runbooks.")
@click.option(
    "--shrink",
    type=click.IntRange(min=1),
    default=1,
    help="Divide all windows, waits and intervals by this, to see alerts fire in a trial.",
)
def rules(
    config: Path | None,
    form: Literal["prometheusrule", "plain", "inhibitions"],
    cluster_label: str | None,
    job_selector: str | None,
    rule_labels: tuple[str, ...],
    runbooks: str | None,
    shrink: int,
) -> None:
    """Write the recording rules and alerts of a configuration."""
    from watchslo.app.rules import Question, rules  # noqa: PLC0415 - each command imports only its own parts

    rules(config, Question(form, cluster_label, job_selector, rule_labels, runbooks, shrink))


@commands.command(epilog="Example:  watchslo rbac --config watchslo.yaml | kubectl apply -f -")
@config_option
@kubeconfig_option
@context_option
@click.option("--namespace", default="watchslo", show_default=True, help="Where the service account is.")
@click.option("--service-account", default="watchslo", show_default=True, help="Its name, and that of its roles.")
@click.option("--include-secrets", is_flag=True, help="Let it read secrets too, if the configuration watches them.")
def rbac(
    config: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    service_account: str,
    *,
    include_secrets: bool,
) -> None:
    """Write the roles that a configuration needs, and no others.

    With their bindings. Asks the cluster only where it has to: what "*" stands for, and the groups of names that are
    written without one.
    """
    from watchslo.app.rights import Question, rbac  # noqa: PLC0415 - each command imports only its own parts

    rbac(config, kubeconfig, context, Question(namespace, service_account, include_secrets))


@commands.command(epilog="Example:  watchslo validate watchslo.yaml")
@click.argument("file", type=click.Path(path_type=Path))
def validate(file: Path) -> None:
    """Check a configuration file."""
    from watchslo.config import load  # noqa: PLC0415 - each command imports only its own parts

    load(file)
    click.echo(f"{file}: valid")


@commands.command(epilog="Example:  watchslo healthy --url http://127.0.0.1:9477")
@config_option
@click.option("--url", help="Where the daemon serves; default: where the configuration lets it listen.")
def healthy(config: Path | None, url: str | None) -> None:
    """Ask a daemon beside this whether it is alive.

    For probes of containers. A liveness probe should name the --url: a configuration that a running daemon refused is
    none of its faults.

    Exits with 0 if it is, 1 if not.
    """
    from watchslo.app.healthy import healthy  # noqa: PLC0415 - each command imports only its own parts

    try:
        click.echo(healthy(config, url))
    except WatchsloError as error:
        _give_up(str(error), EXIT_UNHEALTHY)


@commands.command(epilog="Example:  watchslo completion bash > ~/.local/share/bash-completion/completions/watchslo")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes watchslo in your shell.

    For zsh, put it into a file _watchslo in a folder of $fpath; for fish, into
    ~/.config/fish/completions/watchslo.fish. Or source it where your shell starts.
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(commands, {}, "watchslo", "_WATCHSLO_COMPLETE").source())


def kubectl() -> None:
    """The `kubectl-watchslo` program, by which `kubectl watchslo` is the same."""
    main("kubectl watchslo")


def kubectl_complete() -> None:
    """The `kubectl_complete-watchslo` program, which kubectl asks how the arguments after `kubectl watchslo` may go on.

    It wants a candidate on each line, what it is for after a tab, and at the end `:4`, or `:0` where a file fits
    (k8s.io/kubectl, plugin_completion.go; the numbers are cobra's ShellCompDirective).
    """
    *words, begun = sys.argv[1:] or [""]
    found = ShellComplete(commands, {}, "kubectl watchslo", "").get_completions(words, begun)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help or ''}")
    click.echo(":0" if any(item.type == "file" for item in found) else ":4")


def main(program: str = "watchslo") -> None:
    """The `watchslo` program: whatever goes wrong is one sentence, never a traceback."""
    try:
        commands(prog_name=program)
    except WatchsloError as error:
        _give_up(str(error))
    except Exception as error:  # noqa: BLE001 - nothing is beyond this
        _give_up(f"a mistake of its own: {whereabouts(error)}; please report it")


def _give_up(message: str, code: int = EXIT_UNUSABLE) -> NoReturn:
    click.echo(f"watchslo: {message}", err=True)
    sys.exit(code)
