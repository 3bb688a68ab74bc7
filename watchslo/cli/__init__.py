"""The programs and their commands: each parses its arguments, calls `app`, and sets the exit code.

Each command is a module of its own, which is imported when the command is called or help needs it. A command imports
its part of `app` only when it runs, so that help and completion stay fast.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain

import click
from click.shell_completion import ShellComplete

from watchslo import __version__
from watchslo.cli.command import CommandGroup
from watchslo.cli.exits import EXIT_SIGNAL, give_up
from watchslo.errors import WatchsloError, error_location

HEADINGS = {
    "Measure": ("check", "top", "demo"),
    "Run": ("run", "view"),
    "Investigate": ("report", "doctor"),
    "Set up": ("validate", "rbac", "rules", "completion"),
    "Test a control plane": ("rehearse", "verify"),
}
HIDDEN = ("healthy", "version")  # for probes, and for users who type what other programs have
COMMANDS = (*chain.from_iterable(HEADINGS.values()), *HIDDEN)
INIT_PID = 1  # of the first process of a container, for which Linux ignores signals that it does not handle itself


class CommandModules(Mapping[str, click.Command]):
    """The commands by name; reading one imports its module, which has the same name."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in COMMANDS:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"{__name__}.{name}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@click.group(
    cls=CommandGroup,
    headings=HEADINGS,
    commands=CommandModules(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="watchslo")
def commands() -> None:
    """Measure how late the watch events of a Kubernetes cluster are."""


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
        give_up(str(error))
    except Exception as error:  # noqa: BLE001 - the outermost handler
        give_up(f"internal error: {error_location(error)}; please report it")
