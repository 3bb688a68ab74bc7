"""The commands as a user types them: arguments, exit codes and output."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from tests.conftest import GOLDEN
from tests.support.printed import Printed
from tests.support.transcripts import of_states, replay
from watchslo import __version__
from watchslo.cli import HEADINGS, HIDDEN, commands, kubectl, kubectl_complete, main
from watchslo.cli.rehearse import REHEARSED
from watchslo.cli.rehearse import STRATEGIES as OFFERED
from watchslo.errors import ServeError
from watchslo.rehearse.strategies import NAMES
from watchslo.watch.strategy import STRATEGIES

Watchslo = Callable[..., Printed]


@pytest.fixture
def watchslo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Watchslo:
    """Returns a function that runs the program."""

    def call(*arguments: str) -> Printed:
        monkeypatch.setattr(sys, "argv", ["watchslo", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Printed(int(ended.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments that the commands were called with; each command returns 1."""
    calls: list[tuple[Any, ...]] = []

    def note(*arguments: Any) -> int:
        calls.append(arguments)
        return 1

    names = ("run.run", "demo.demo", "check.check", "verify.verify", "doctor.doctor", "rehearse.rehearse")
    for name in (*names, "rules.rules", "rbac.rbac", "top.top", "view.view", "report.report"):
        monkeypatch.setattr(f"watchslo.app.{name}", note)
    return calls


@pytest.mark.parametrize("pid", [1, 7])
def test_only_the_init_of_a_container_handles_sigterm_before_the_daemon_does(
    pid: int, watchslo: Watchslo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel ignores a signal whose action is the default one for this process, and for no other."""
    handlers: dict[int, Callable[..., object]] = {}
    exits: list[int] = []
    monkeypatch.setattr(os, "getpid", lambda: pid)
    monkeypatch.setattr(os, "_exit", exits.append)
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    watchslo("--version")
    assert [*handlers] == ([signal.SIGTERM] if pid == 1 else [])
    for handler in handlers.values():
        handler(signal.SIGTERM, None)
    assert exits == [128 + signal.SIGTERM] * len(handlers)


@pytest.mark.parametrize("word", ["--version", "version"])
def test_version(word: str, watchslo: Watchslo) -> None:
    assert watchslo(word) == Printed(0, f"watchslo, version {__version__}\n")


@pytest.mark.parametrize("name", list(commands.commands))
def test_help_has_an_example(name: str, watchslo: Watchslo) -> None:
    help_text = watchslo(name, "--help")
    assert help_text.code == 0
    assert f"Example: watchslo {name}" in " ".join(help_text.text.split())


@pytest.mark.parametrize("name", list(commands.commands))
def test_help_explains_the_command_and_every_option_in_sentences(name: str) -> None:
    command = commands.commands[name]
    assert (command.help or "").partition("\n")[0].endswith(".")
    options = {one.opts[-1]: one.help or "" for one in command.params if isinstance(one, click.Option)}
    assert {option: text for option, text in options.items() if not text.endswith(".")} == {}


def test_list_of_commands_shows_whole_sentences(watchslo: Watchslo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    help_text = watchslo("--help")
    assert help_text.code == 0
    sections = dict(section.split(":\n", 1) for section in help_text.text.split("\n\n")[2:])
    listed = {heading: sections[heading].splitlines() for heading in HEADINGS}
    assert {heading: tuple(line.split()[0] for line in lines) for heading, lines in listed.items()} == HEADINGS
    assert all(line.endswith(".") and "..." not in line for lines in listed.values() for line in lines)


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ([], [*sorted({*commands.commands}.difference(HIDDEN)), ":4"]),
        (["re"], ["rehearse", "report", ":4"]),
        (["rehearse", "--str"], ["--strategy", ":4"]),
        (["rehearse", "--strategy", "p"], ["paged", "parallel", ":4"]),
        (["validate", ""], [":0"]),
    ],
)
def test_kubectl_completion_lists_candidates(
    words: list[str], completed: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-watchslo", *words])
    kubectl_complete()
    assert [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()] == completed


CALLS = """\
run
run --config f --kubeconfig k --context c --listen :0 --log-format console --log-level debug \
--authorization kubernetes --cert-dir d
demo --duration 2.5 --listen :0
demo --duration 1m30s
demo --fault reset
view a b --service s --token-file t --ca-file a --insecure --listen :0 --authorization kubernetes --cert-dir d \
--kubeconfig k --context c
view -o table
view -o json
report
report u
report --prometheus p --since 2h --until 1h --job-selector s --cluster-label l -o markdown --token-file t --ca-file c \
--insecure
check
check pods nodes --config f --kubeconfig k --context c --duration 10s --threshold 2s -n n -o json
verify
verify --config f --kubeconfig k --context c --duration 10m --each --inventory --replay --resource pods -n n -o json
doctor
doctor --config f --kubeconfig k --context c -n n --instance i --prometheus p --alertmanager a -o json \
--job-selector s --cluster-label l --histograms native --dashboards d --token-file t --prometheus-token-file pt \
--ca-file ca --insecure
rehearse pods
rehearse pods nodes -n n --strategy paged --strategy stream --repeat 3 -o json --kubeconfig k \
--context c
rehearse --all --max-bytes 1Gi --dry-run
rules
rules --config f -o plain --cluster-label c --rule-labels a=b --rule-labels c=d --runbooks r --grafana g --shrink 60 \
--job-selector s --histograms native --alerts all --alert-labels t=p --alert-labels u=v
rules -o mimir --fleet global --replica-label p
rbac
rbac --config f --kubeconfig k --context c --namespace n --service-account s --include-secrets
top
top http://there --token-file t --ca-file a --insecure --once --watch w
top --kubeconfig k --context c
"""


def test_arguments_of_commands_match_golden_file(
    watchslo: Watchslo, called: list[tuple[Any, ...]], golden: Callable[[str, str], None]
) -> None:
    states = {}
    for line in CALLS.splitlines():
        code = watchslo(*line.split()).code
        (arguments,) = called
        states[f"watchslo {line}"] = [*(text for one in arguments for text in shown(one)), f"exit code {code}"]
        called.clear()
    golden("arguments.txt", of_states(states))


def shown(value: Any, indent: str = "") -> Iterator[str]:
    """Yield an argument; of a dataclass, only the fields that have a value."""
    if not is_dataclass(value):
        yield f"{indent}{value!r}"
        return
    yield f"{indent}{type(value).__name__}"
    for field in fields(value):
        given = getattr(value, field.name)
        if is_dataclass(given):
            yield from shown(given, f"{indent}  {field.name}: ")
        elif given not in (None, (), False):
            yield f"{indent}  {field.name}: {given!r}"


def test_demo_fault_help_lists_faults(watchslo: Watchslo, called: list[tuple[Any, ...]]) -> None:
    faults = watchslo("demo", "--fault", "help")
    assert re.search(r"^ *slow-watch +events leave the watch cache late$", faults.text, re.MULTILINE)
    assert (faults.code, called) == (0, [])


def test_rules_are_printed(watchslo: Watchslo) -> None:
    printed = watchslo("rules", "-o", "plain")
    assert printed.text.startswith("# Written by `watchslo rules`")
    assert "KubeWatchLatencyBudgetBurn" in printed.text
    refused = watchslo("rules", "--cluster-label", "job")
    assert refused.errors.startswith("watchslo: --cluster-label: job has another meaning here")
    assert (printed.code, refused.code) == (0, 2)


def test_rbac_is_printed(watchslo: Watchslo, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("watch: [{resource: pods}, {resource: secrets}]")
    printed = watchslo("rbac", "--config", str(path))
    assert printed.code == 0
    assert printed.text.startswith("# Written by `watchslo rbac`")
    assert printed.errors.startswith("watchslo: the configuration watches secrets, but these roles do not permit it")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_the_shell(shell: str, watchslo: Watchslo) -> None:
    script = watchslo("completion", shell)
    assert script.code == 0
    assert f"_WATCHSLO_COMPLETE={shell}_complete" in script.text


def test_kubectl_plugin_shows_its_own_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], called: list[tuple[Any, ...]]
) -> None:
    for arguments in (["check", "--help"], ["check"]):
        monkeypatch.setattr(sys, "argv", ["/somewhere/kubectl-watchslo", *arguments])
        with pytest.raises(SystemExit):
            kubectl()
    printed = capsys.readouterr().out
    assert printed.startswith("Usage: kubectl watchslo check ")
    assert "Example:  kubectl watchslo check " in printed
    assert len(called) == 1


def test_validate_accepts_a_valid_file_and_names_the_mistake_in_another(watchslo: Watchslo, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("watch: [{resource: pods}]")
    assert watchslo("validate", str(path)) == Printed(0, f"{path}: valid\n")
    path.write_text("watch: [{resorce: pods}]")
    mistake = f"watchslo: {path}:1: watch[0].resorce: unknown key; did you mean resource?\n"
    assert watchslo("validate", str(path)) == Printed(2, "", mistake)


def test_validate_warns_of_an_outdated_key(watchslo: Watchslo, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("metrics: proven")
    warning = f"watchslo: warning: {path}:1: metrics: proven is outdated; write mode: node instead\n"
    assert watchslo("validate", str(path)) == Printed(0, f"{path}: valid\n", warning)


def test_healthy_prints_its_result(watchslo: Watchslo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchslo.app.healthy.healthy", lambda config, url: f"{config} {url}: ok")
    assert watchslo("healthy", "--config", "f", "--url", "u") == Printed(0, "f u: ok\n")


def test_healthy_failure_is_one_sentence(watchslo: Watchslo) -> None:
    """Its exit code is 1: containers know no other one."""
    why = "watchslo: --url: nowhere is not a URL; write for example http://127.0.0.1:9477\n"
    assert watchslo("healthy", "--url", "nowhere") == Printed(1, "", why)


def test_refused_arguments_match_golden_file(
    watchslo: Watchslo, called: list[tuple[Any, ...]], golden: Callable[[str, str], None]
) -> None:
    def refusal(arguments: str) -> str:
        printed = watchslo(*arguments.split())
        return f"{printed.errors.splitlines()[-1]} ({printed.code})"

    golden("refused-arguments.txt", replay((GOLDEN / "refused-arguments.txt").read_text(), lambda _: refusal))
    assert called == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ServeError("cannot listen on :1: the port is already in use"), "cannot listen on :1: the port is already in"),
        (ZeroDivisionError("secret"), "internal error: ZeroDivisionError in test_"),
        (ExceptionGroup("many", [KeyError("secret")]), "internal error: KeyError in unknown"),
    ],
)
def test_errors_are_one_sentence_without_traceback(
    error: Exception, said: str, watchslo: Watchslo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("watchslo.app.demo.demo", fail)
    printed = watchslo("demo")
    assert printed.code == 2
    assert printed.errors.startswith(f"watchslo: {said}")
    assert printed.errors.count("\n") == 1
    assert "secret" not in printed.errors


def test_rehearse_offers_all_strategies() -> None:
    assert tuple(STRATEGIES) == OFFERED
    assert NAMES == REHEARSED
