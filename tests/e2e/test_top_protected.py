"""`watchslo top` at a daemon that speaks TLS and asks the cluster who may read."""

from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, config_file, watchslo
from tests.support.process import eventually

pytestmark = pytest.mark.patient

READ = {"nonResourceURLs": ["/"], "verbs": ["get"]}


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

    def may_read() -> bool:
        return watchslo(*once, *trusted, "--token-file", tokens["top-reader"]).returncode == 0

    with Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon:
        once = ("top", "--once", daemon.url)
        eventually(may_read, 180.0, "known to the apiserver what was granted", every=1.0)
        told = {
            "reader": watchslo(*once, *trusted, "--token-file", tokens["top-reader"]),
            "believer": watchslo(*once, "--insecure", "--token-file", tokens["top-reader"]),
            "stranger": watchslo(*once, *trusted, "--token-file", tokens["top-stranger"]),
            "nobody": watchslo(*once, *trusted),
            "doubter": watchslo(*once, "--token-file", tokens["top-reader"]),
        }
    assert {name: done.returncode for name, done in told.items()} == {
        **dict.fromkeys(("reader", "believer"), 0),
        **dict.fromkeys(("stranger", "nobody", "doubter"), 2),
    }
    assert told["reader"].stdout.splitlines()[1].startswith("configmaps")
    assert "this identity may not read there; grant it the verb get on the path /" in told["stranger"].stderr
    assert "it does not know who we are; name a file with a valid token as --token-file" in told["nobody"].stderr
    assert "name its CA with --ca-file" in told["doubter"].stderr
