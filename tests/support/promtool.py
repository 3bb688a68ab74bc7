"""What promtool says about rules: whether they are valid, and what they make of series, many cases in one run."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.exposed import rendered
from tests.support.prometheus import program
from watchslo.rules.rule import RuleDefinition

Rules = Mapping[str, Any]
"""A rule file, as a document."""
Query = dict[str, Any]
"""What an expression or an alert must give in a minute, as promtool reads it."""
FEWER_COLLECTIONS = {"GOGC": "400"}
"""promtool needs little memory here, and spends a third of its time on collecting garbage."""


@dataclass(frozen=True, slots=True)
class Case:
    """Series with a value every `interval`, and what queries on them must give."""

    series: Iterable[Mapping[str, str]]
    queries: Sequence[Query]
    interval: str = "1m"

    def groups(self) -> dict[str, Any]:
        return {
            "interval": self.interval,
            "input_series": [*self.series],
            "alert_rule_test": [query for query in self.queries if "alertname" in query],
            "promql_expr_test": [query for query in self.queries if "alertname" not in query],
        }


def value(minute: int, expression: str, expected: float | None, labels: str = "{}") -> Query:
    """Expect one series with a value, or none."""
    samples = [] if expected is None else [{"labels": labels, "value": expected}]
    return {"eval_time": f"{minute}m", "expr": expression, "exp_samples": samples}


def rounded(minute: int, values: Mapping[str, float | None], labels: str = "{}") -> list[Query]:
    """Expect a value of each expression, with six decimals, or none."""
    return [value(minute, f"round({name}, 1e-6)", one and round(one, 6), labels) for name, one in values.items()]


def alerts(minute: int, *expected: str, by: str = "alertname", of: str = 'alertstate="firing"') -> Query:
    """Expect exactly these alerts; each is named by its values of the labels `by`, up to the last one that it has."""
    names = by.split()
    shown = [
        ", ".join(f'{name}="{one}"' for name, one in zip(names, alert.split(), strict=False)) for alert in expected
    ]
    samples = [{"labels": f"{{{labels}}}", "value": 1} for labels in shown]
    return {"eval_time": f"{minute}m", "expr": f"group by ({','.join(names)}) (ALERTS{{{of}}})", "exp_samples": samples}


def described(
    rule: RuleDefinition, about: Mapping[str, str], shown: str, worst: str, p99: str = "unknown"
) -> dict[str, Any]:
    """Return a firing alert with all labels and annotations; these show a value, the worst watch and its P99."""
    said = {key: rendered(text, about, shown, worst, p99) for key, text in rule.annotations.items()}
    return {"exp_labels": {**rule.labels, **about}, "exp_annotations": said}


def firing(minute: int, name: str, *expected: Mapping[str, Any]) -> Query:
    """Expect exactly these `described` alerts of one name."""
    return {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [*expected]}


def complaints_of_test(folder: Path, rules: Rules, cases: Iterable[tuple[str, Case]], every: str = "1m") -> str:
    """Return the complaints of `promtool test rules` about cases, each with its name; empty if all hold.

    The rules are evaluated `every` so often.
    """
    (folder / "rules.yaml").write_text(json.dumps(rules))  # every JSON document is one of YAML
    tests = [{"name": name, **case.groups()} for name, case in cases]
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": every, "tests": tests}
    (folder / "test.yaml").write_text(json.dumps(document))
    return _complaints(folder, "test", "rules", "test.yaml")


def complaints_of_check(folder: Path, rules: Rules, *options: str) -> str:
    """Return the complaints of `promtool check rules`."""
    (folder / "rules.yaml").write_text(json.dumps(rules))
    return _complaints(folder, "check", "rules", *options, "rules.yaml")


def complaints_of_configuration(path: Path) -> str:
    """Return the complaints of `promtool check config`."""
    return _complaints(path.parent, "check", "config", path.name)


def _complaints(folder: Path, *arguments: str) -> str:
    command = [program("promtool"), *arguments]
    env = os.environ | FEWER_COLLECTIONS
    # No time-out: promtool waits for nothing, and many cases take it long on a busy machine.
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)
    return "" if done.returncode == 0 else done.stdout + done.stderr
