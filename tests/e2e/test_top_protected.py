"""`watchslo top` at a daemon that speaks TLS and asks the cluster who may read."""

import subprocess
from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, config_file, watchslo
from tests.support.process import eventually
from tests.support.reader import Reader

pytestmark = pytest.mark.patient

REVIEW_SECONDS = 180.0
READ = {"nonResourceURLs": ["/"], "verbs": ["get"]}


def reviewed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What a command says when the daemon could find out who may read, which takes an apiserver that has the time."""

    def had() -> subprocess.CompletedProcess[str] | None:
        done = watchslo(*arguments)
        return None if any(late in done.stderr for late in ("it answers 503", "no answer within")) else done

    return eventually(had, REVIEW_SECONDS, "a review", every=1.0)


def test_a_protected_daemon_is_shown_a_token(control_plane: ControlPlane, tmp_path: Path) -> None:
    pair = control_plane.authority.server("top")
    server = {"tls": {"certFile": str(pair.certificate), "keyFile": str(pair.key)}, "authorization": "kubernetes"}
    config = config_file(tmp_path, watch=[{"resource": "configmaps"}], server=server)
    tokens = {
        name: tmp_path / name
        for name, rules in {"top-reader": [READ], "top-stranger": []}.items()
        if (tmp_path / name).write_text(control_plane.service_account(name, *rules) + "\n")
    }
    trusted = ("--ca-file", control_plane.ca)

    with Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon:
        reader = Reader(daemon.url, control_plane.ca)
        eventually(lambda: reader.status("/readyz") == 200, REVIEW_SECONDS, "ready", every=1.0)
        once = ("top", "--once", daemon.url)
        told = {
            "reader": reviewed(*once, *trusted, "--token-file", tokens["top-reader"]),
            "believer": reviewed(*once, "--insecure", "--token-file", tokens["top-reader"]),
            "stranger": reviewed(*once, *trusted, "--token-file", tokens["top-stranger"]),
            "nobody": reviewed(*once, *trusted),
            "doubter": reviewed(*once, "--token-file", tokens["top-reader"]),
        }
    assert {name: done.returncode for name, done in told.items()} == {
        **dict.fromkeys(("reader", "believer"), 0),
        **dict.fromkeys(("stranger", "nobody", "doubter"), 2),
    }
    assert told["reader"].stdout.splitlines()[1].startswith("configmaps")
    assert "this identity may not read there; grant it the verb get on the path /" in told["stranger"].stderr
    assert "it does not know who we are; name a file with a valid token as --token-file" in told["nobody"].stderr
    assert "name its CA with --ca-file" in told["doubter"].stderr
