"""All instances at once: two shards of one cluster, seen by `watchslo view`."""

import contextlib
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.control_plane import ControlPlane
from tests.support.daemon import LOOK_SECONDS, WATCHSLO, Daemon, asking, config_file, start_all
from tests.support.process import PATIENCE_SECONDS, Process

RESOURCES = ("configmaps", "secrets", "leases.coordination.k8s.io", "pods")


def shard(plane: ControlPlane, folder: Path, index: int) -> Daemon:
    folder.mkdir()
    watch = [{"resource": resource} for resource in RESOURCES]
    config = config_file(folder, watch=watch, shard={"index": index, "count": 2})
    return Daemon(folder, "--config", config, "--kubeconfig", plane.kubeconfig())


def seen(*urls: str) -> tuple[int, Any]:
    """Return the exit code of `view --json`, and its document."""
    done = asking("view", "--once", "--json", *urls)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def parts(document: Any) -> dict[str, Any]:
    """Return the rows by their parts."""
    return {row["part"]: row for row in document["instances"]}


def test_view_names_both_shards_and_the_one_that_was_killed(control_plane: ControlPlane, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        daemons = [shard(control_plane, tmp_path / str(index), index) for index in range(2)]
        start_all(stack, daemons)
        for daemon in daemons:
            daemon.until_ready()
        urls = [daemon.url for daemon in daemons]
        daemons[0].process.until(lambda: all(daemon.status()["verdict"] for daemon in daemons), "judged", LOOK_SECONDS)

        _, both = seen(*urls)
        assert parts(both).keys() == {"shard 1 of 2", "shard 2 of 2"}
        assert sum(row["watches"] for row in both["instances"]) == len(RESOURCES)
        assert all(row["answers"] and row["age"] < 60.0 for row in both["instances"])
        assert not any(finding["doubt"] for finding in both["findings"])
        assert both["cluster"], "the name of the kubeconfig's context"
        page = daemons[1].answer("/")
        assert re.search(r"<title>watchslo: \S+, shard 2 of 2</title>", page)
        assert "Only shard 2 of 2 is shown here" in page

        page_of_all = Process(tmp_path, "view", [WATCHSLO, "view", "--listen", "127.0.0.1:0", *urls])
        page_of_all.start()
        stack.callback(page_of_all.stop)
        page_of_all.until(lambda: "url=" in page_of_all.err, "listening")
        (address,) = re.findall(r"url=(http://[\d.:]+)/", page_of_all.err)

        def served() -> Any:
            with urllib.request.urlopen(f"{address}/api/v1/overview", timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)

        page_of_all.until(lambda: len(parts(served())) == 2, "both are asked", LOOK_SECONDS)

        daemons[1].process.kill()
        code, document = seen(*urls)
        assert (code, document["verdict"]["level"]) == (2, "unknown")
        gone = f"Cannot tell for shard 2 of 2 ({urls[1]}): the connection is refused; check that the daemon runs."
        assert gone in [finding["text"] for finding in document["findings"]]
        assert parts(document)["shard 1 of 2"]["answers"]

        page_of_all.until(lambda: gone in [finding["text"] for finding in served()["findings"]], "missed", LOOK_SECONDS)
        row = parts(served())["shard 2 of 2"]
        assert (row["level"], row["answers"], row["version"]) == ("unknown", False, both["instances"][0]["version"])
