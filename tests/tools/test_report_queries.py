"""The query of a report for the verdict of each minute, evaluated by promtool."""

import subprocess
from collections.abc import Container
from itertools import accumulate
from pathlib import Path

import yaml

from tests.support.process import PATIENCE_SECONDS
from tests.support.prometheus import program
from watchslo.report.incident import ReportPeriod
from watchslo.report.queries import Asked, queries
from watchslo.rules.settings import RuleSettings


def windows(instance: str, verdict: str, scrapes: Container[int]) -> dict[str, str]:
    """Return a counter of an instance that is scraped every 15 s and grew before these scrapes."""
    labels = f'job="watchslo",instance="{instance}",apiserver="a:1",watch="pods",verdict="{verdict}"'
    values = accumulate(int(scrape in scrapes) for scrape in range(48))
    return {"series": f"watchslo_slo_windows_total{{{labels}}}", "values": " ".join(map(str, values))}


def test_each_minute_has_the_worst_verdict_of_all_instances(tmp_path: Path) -> None:
    query = queries(RuleSettings(), ReportPeriod(0.0, 600.0))[Asked.MINUTES]
    series = [
        windows("a", "good", range(4, 48, 4)),
        windows("a", "bad", ()),
        windows("b", "good", {*range(5, 48, 4)} - {13, 17, 25}),
        windows("b", "bad", (13, 17)),
        windows("c", "undecided", (26,)),
    ]
    verdicts = [1, 1, 3, 3, 1, 2, 1, 1, 1, 1]
    tests = [
        {
            "expr": query.expression,
            "eval_time": f"{query.start + query.step * minute:.0f}s",
            "exp_samples": [{"labels": '{apiserver="a:1",watch="pods"}', "value": verdict}],
        }
        for minute, verdict in enumerate(verdicts)
    ]
    file = tmp_path / "test.yaml"
    one = {"interval": "15s", "input_series": series, "promql_expr_test": tests}
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "15s", "tests": [one]}))
    command: list[str | Path] = [program("promtool"), "test", "rules", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
