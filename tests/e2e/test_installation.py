"""Installation: does what I install run, does it lead to a first P99, and is my deployment right?"""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context
from typing import Any

import pytest
import yaml

from tests.support.assets import Assets
from tests.support.busy import steady_writes
from tests.support.control_plane import EVERYTHING_READABLE, HOST, ControlPlane, Etcd
from tests.support.daemon import LENIENT_OBJECTIVE, Daemon, config_file, outside, watchslo
from tests.support.newcomer import documented_commands
from tests.support.odd_apis import METRICS, SUBRESOURCES, VERSION, WRONG, OddApis
from tests.support.process import PATIENCE_SECONDS, Process, eventually
from tests.support.prometheus import Prometheus, scraping
from tests.support.writer import StatusError, Writer, crd
from tools.image.build import build, buildah, size, unpacked
from watchslo.config.loading import load
from watchslo.kube.discovery import ACCEPT
from watchslo.rules.pack import plain, prometheus_rule
from watchslo.rules.settings import RuleSettings

# The image


REVISION = "0123456789abcdef0123456789abcdef01234567"
SERVICE_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount"
UNPRIVILEGED_ID = 65534
LARGEST = 300e6  # bytes
UNWANTED = ("sh", "bash", "dash", "busybox", "pip", "pip3", "gcc", "cc", "ld", "as", "apt", "dpkg", "perl", "ensurepip")
ENTER = (  # arguments: the root, the folder of the service account, then a command
    'root=$1 secrets=$2; shift 2; "$MOUNT" --make-rprivate / && "$MOUNT" --bind "$root" "$root" && '
    '"$MOUNT" --options remount,bind,ro "$root" && "$MOUNT" --types proc proc "$root/proc" && '
    f'"$MOUNT" --bind --options ro "$secrets" "$root/{SERVICE_ACCOUNT}" && unset MOUNT && exec "$@"'
)


def program(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, f"there is no {name} here"
    return path


class Container:
    """The configuration of the image, and commands run in it, without mounts that outlive them."""

    def __init__(self, image: str, root: Path) -> None:
        self.root = root
        self.config: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
        (root / SERVICE_ACCOUNT).mkdir(parents=True)  # as every engine does for its mounts

    def env(self, **more: str) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.config["Env"]) | more | {"MOUNT": program("mount")}

    def wrapper(self, secrets: Path) -> list[str]:
        """Return a command that runs its arguments inside the image, with `secrets` as service account."""
        enter = [program("unshare"), "--mount", program("sh"), "-c", ENTER, "sh", str(self.root), str(secrets)]
        return [*enter, program("chroot"), f"--userspec={self.config['User']}", "--groups=", str(self.root)]

    def run(self, secrets: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the image to its end."""
        full = [*self.wrapper(secrets), *command]
        return subprocess.run(
            full, env=self.env(**env), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    image = build(REVISION)
    with unpacked(image) as root:
        yield Container(image, root)


@pytest.fixture(scope="module")
def secrets(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a service account, as in a pod."""
    folder = tmp_path_factory.mktemp("image") / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text(control_plane.service_account("image", EVERYTHING_READABLE))
    shutil.copy(control_plane.ca, folder / "ca.crt")
    for path in (folder.parent.parent, folder.parent, folder):
        path.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder


def test_image_configuration_names_command_user_and_revision(container: Container) -> None:
    config = container.config
    assert config["Entrypoint"] + config["Cmd"] == ["watchslo", "run"]
    assert config["User"] == f"{UNPRIVILEGED_ID}:{UNPRIVILEGED_ID}"
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "watchslo", "healthy"]
    assert list(config["ExposedPorts"]) == ["9477/tcp"]
    assert config["Labels"]["org.opencontainers.image.revision"] == REVISION


def test_image_holds_no_shell_compiler_or_setuid_file(container: Container) -> None:
    files = list(container.root.rglob("*"))
    assert size(container.root) < LARGEST
    assert [path for path in files if path.name in UNWANTED and path.is_file()] == []
    assert [path for path in files if path.name.startswith("pip-")] == []
    assert [path for path in files if not path.is_symlink() and path.stat().st_mode & 0o6000] == []
    writable = [path for path in files if not path.is_symlink() and path.stat().st_mode & 0o002]
    assert writable == [container.root / "tmp"]


def test_image_has_no_broken_link(container: Container) -> None:
    """A link to a file outside the image would fail at run time."""
    for link in (path for path in container.root.rglob("*") if path.is_symlink()):
        target = link.readlink()
        found = container.root / target.relative_to("/") if target.is_absolute() else link.parent / target
        assert found.exists(), f"{link} → {target}"


def test_image_lists_the_packages_of_its_libraries(container: Container) -> None:
    """Scanners find vulnerabilities only in listed packages."""
    packages = {path.name: path.read_text() for path in (container.root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libssl3", "python3.11-minimal", "zlib1g"} <= packages.keys()
    for name, status in packages.items():
        assert f"Package: {name}\n" in status
        assert "\nVersion: " in status
        assert (container.root / "usr/share/doc" / name / "copyright").stat().st_size > 0


def test_image_holds_nothing_of_the_build_machine(container: Container) -> None:
    assert not (container.root / "run").exists()
    assert not (container.root / "etc/pip.conf").exists()
    assert not list(container.root.glob("root/*"))


def test_image_runs_as_in_a_strict_pod(
    container: Container, secrets: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Read-only and without privileges, with a mounted service account."""
    host, port = control_plane.url.removeprefix("https://").split(":")
    env = container.env(KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port)
    with Daemon(tmp_path, env=env, wrapper=container.wrapper(secrets), program="watchslo") as daemon:
        daemon.until_measuring("configmaps")
        with steady_writes(control_plane):  # continuously: an event received by a late loop is no sample
            daemon.until_samples("configmaps", 1)
        version = container.run(Path("/"), "python", "-c", "import platform; print(platform.python_version())").stdout
        build_info = {"revision": REVISION, "python_version": version.strip()}
        assert daemon.scrape().value("watchslo_build_info", **build_info) == 1

        status = Path(f"/proc/{daemon.process.pid}/status").read_text()
        facts = dict(line.split(":\t", 1) for line in status.splitlines())
        assert facts["Uid"].split() == facts["Gid"].split() == [str(UNPRIVILEGED_ID)] * 4
        assert facts["Groups"].strip() == ""
        assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == 0

        ask = (*container.config["Healthcheck"]["Test"][1:], "--url")
        eventually(lambda: container.run(secrets, *ask, daemon.url).stdout == f"{daemon.url}: ok\n", "healthy")
        failed = container.run(secrets, *ask, f"http://{HOST}:1")
        assert (failed.returncode, failed.stdout) == (1, "")
        assert daemon.stop() == 0
        assert len(daemon.log("stopped")) == 1


# The documented commands


ROOT = Path(__file__).parents[2]
FIGURES = re.compile(r"^configmaps +[1-9][\d,]* +[≲~\d].* … ", re.MULTILINE)
PODS = re.compile(r"^pods +events +[1-9][\d,]* +P50 ", re.MULTILINE)


def test_documented_commands_lead_to_a_first_p99(control_plane: ControlPlane, tmp_path: Path) -> None:
    """In this clone; that `make setup` works in a fresh one is proven by each run of CI."""
    env = outside(KUBECONFIG=str(control_plane.kubeconfig()))
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV"):  # as in a shell, even if make runs these tests
        env.pop(name, None)
    setup, check = documented_commands(ROOT / "docs/quickstart.md")
    assert setup == "make setup"
    demos = documented_commands(ROOT / "README.md")
    with contextlib.ExitStack() as stack:
        stack.enter_context(steady_writes(control_plane))

        def typed(number: int, command: str) -> Process:
            line = ["/bin/sh", "-c", f"cd '{ROOT}' && exec {command}"]
            return stack.enter_context(Process(tmp_path, f"command-{number}", line, env))

        checked, *shown = [typed(number, command) for number, command in enumerate([check, *demos])]
        for demo in shown:
            demo.until(lambda: bool(PODS.search(demo.out)), "measured")  # noqa: B023 - used at once
            demo.signal(signal.SIGINT)
            demo.wait()
            assert "--- injected fault: " in demo.out
            assert "Traceback" not in demo.out + demo.err
        code = checked.wait()
        assert checked.err == ""
        assert FIGURES.search(checked.out), checked.out
        within = checked.out.splitlines()[-1].startswith("No watch is late; ")  # unless this machine is busy
        assert (code == 0) == within, checked.out


# `watchslo doctor`, with the Prometheus that scrapes a daemon and with API groups whose discovery is odd


GROUP = "monitoring.coreos.com"
OPERATOR = f"/apis/{GROUP}/v1/namespaces"
NAMESPACE, THEIRS = "slo", "hidden-namespace"
TOO_SLOW = re.compile(
    r"This took longer than|no answer within|No answer from|it answers 503|cannot be scraped|It is not ready"
)
"""What doctor finds of processes that stood still: nothing is wrong with the deployment."""
LABELS = {"release": "prometheus"}
EVERYWHERE: dict[str, Any] = {
    "podMonitorSelector": {"matchLabels": LABELS},
    "podMonitorNamespaceSelector": {},
    "ruleSelector": {"matchLabels": LABELS},
    "ruleNamespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
}
CONFIG = {"watch": [{"resource": "configmaps"}, {"resource": "leases.coordination.k8s.io"}]}
BLIND = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
Findings = list[dict[str, str]]


@dataclass(frozen=True)
class Deployment:
    """A daemon with its configuration and kubeconfig, the Prometheus that scrapes it, and its apiserver."""

    plane: ControlPlane
    folder: Path
    config: Path
    kubeconfig: Path
    daemon: Daemon
    prometheus: Prometheus

    def findings(self, **replaced: Path) -> Findings:
        """Return the findings about the daemon and its Prometheus; ask again while the machine is too busy for them."""

        def asked() -> Findings | None:
            found = self.asked(**replaced)
            return None if any(TOO_SLOW.search(finding["text"]) for finding in found) else found

        return eventually(asked, "all answer in time")

    def asked(self, **replaced: Path) -> Findings:
        given = {"config": self.config, "kubeconfig": self.kubeconfig, **replaced}
        options = [part for name, path in given.items() for part in (f"--{name}", path)]
        urls = ("--instance", self.daemon.url, "--prometheus", self.prometheus.url)
        done = watchslo("doctor", *options, "--namespace", NAMESPACE, *urls, "-o", "json", env=outside())
        assert done.stderr == ""
        assert "hidden-" not in done.stdout, "no name of an object of users is printed"
        found: Findings = json.loads(done.stdout)["findings"]
        assert done.returncode == int(found[0]["level"] == "problem")
        return found


@pytest.fixture(scope="module")
def deployment(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("doctor")
    config = config_file(folder, **CONFIG, objective=LENIENT_OBJECTIVE)
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(plain(load(config)[0], RuleSettings())))
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd))
        apis = stack.enter_context(OddApis(plane.authority.server("odd-apis")))
        with plane.writer() as writer:
            apis.register(writer)
        install_operator(plane, config)
        eventually(lambda: len(odd_groups(plane)) == 3, "all odd groups are discovered")
        kubeconfig = plane.kubeconfig("doctor", {"token": plane.service_account("doctor", EVERYTHING_READABLE)})
        own = ("--config", config, "--kubeconfig", kubeconfig)
        daemon = stack.enter_context(Daemon(folder / "daemon", *own))
        scraped = {**scraping(daemon.url), "rule_files": [str(rules)]}
        scraped["global"] = {"scrape_interval": "5s", "evaluation_interval": "1s"}
        prometheus = stack.enter_context(Prometheus(folder / "prometheus", scraped))
        daemon.until_measuring("configmaps", "leases.coordination.k8s.io")
        prometheus.process.until(lambda: prometheus.value("up") == 1.0, "scraping")
        yield Deployment(plane, folder, config, kubeconfig, daemon, prometheus)


def odd_groups(plane: ControlPlane) -> dict[str, Any]:
    """Return the versions of the odd groups that the apiserver has asked for, in its aggregated discovery."""
    headers = {"Accept": ACCEPT, "Authorization": f"Bearer {plane.token}"}
    request = urllib.request.Request(f"{plane.url}/apis", headers=headers)
    context = create_default_context(cafile=plane.ca)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=context) as answer:
        items = json.load(answer)["items"]
    found = {item["metadata"]["name"]: item["versions"][0] for item in items}
    known = {name: found[name] for name in (METRICS, SUBRESOURCES) if found.get(name, {}).get("resources")}
    return known | {name: version for name, version in found.items() if name == WRONG}


def install_operator(plane: ControlPlane, config: Path) -> None:
    """Create what the Prometheus operator would select: a monitor and rules of watchslo, and a Prometheus."""
    rule = prometheus_rule(load(config)[0], RuleSettings(), LABELS)
    selector = {"matchLabels": {"app.kubernetes.io/name": "watchslo"}}
    monitor = {"metadata": {"name": "watchslo", "labels": LABELS}, "spec": {"selector": selector}}
    chosen = {"metadata": {"name": "hidden-name"}, "spec": EVERYWHERE}
    with plane.writer() as writer:
        for namespace in (NAMESPACE, THEIRS):
            writer.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        create_custom(writer, NAMESPACE, "PodMonitor", "podmonitors", monitor)
        create_custom(writer, NAMESPACE, "PrometheusRule", "prometheusrules", rule)
        create_custom(writer, THEIRS, "Prometheus", "prometheuses", chosen)


def create_custom(writer: Writer, namespace: str, kind: str, plural: str, body: dict[str, Any]) -> None:
    """Create a CRD of the operator, and an object as soon as it is served."""
    writer.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(plural, kind, GROUP))

    def created() -> bool:
        with contextlib.suppress(StatusError):
            writer.create(f"{OPERATOR}/{namespace}/{plural}", {"apiVersion": f"{GROUP}/v1", "kind": kind, **body})
            return True
        return False

    eventually(created, f"{kind} served")


def of(findings: Findings, subject: str) -> list[tuple[str, str]]:
    return [(finding["level"], finding["text"]) for finding in findings if finding["subject"] == subject]


def problems(findings: Findings) -> Findings:
    """Return the problems, without those that only a busy machine has."""
    return [one for one in findings if one["level"] == "problem" and "Can it be trusted?" not in one["text"]]


def test_doctor_finds_no_problem_in_a_deployment_that_is_right(deployment: Deployment) -> None:
    found = deployment.findings()
    assert problems(found) == []
    for subject in ("addresses", "apiservers", "rights", "ticks", "wall clocks", "revisions", "scrapes", "version"):
        assert [level for level, _ in of(found, subject)] == ["good"], (subject, found)
    assert of(found, "monitor") == [("good", "A Prometheus selects 1 PodMonitor of watchslo.")]
    selected, loaded = of(found, "rules")
    assert selected == ("good", "A Prometheus selects 1 PrometheusRule of watchslo.")
    assert loaded[0] == "good"
    assert "as this configuration makes them" in loaded[1]
    assert ("good", "It is ready.") in of(found, "instance")
    assert of(found, "alerts")[0][0] == "warning", "there is no Alertmanager"
    assert any("panels show data." in text for _, text in of(found, "dashboards"))
    assert any("Prometheus does not scrape the apiservers." in text for _, text in of(found, "dashboards"))


def test_odd_api_group_is_named_and_everything_else_is_measured(deployment: Deployment) -> None:
    """The apiserver invents the parent of a subresource, and gives it no verbs."""
    groups = odd_groups(deployment.plane)
    assert [one["verbs"] for name in (METRICS, SUBRESOURCES) for one in groups[name]["resources"]] == [None, None]
    assert groups[WRONG]["freshness"] == "Stale"
    daemon, named = deployment.daemon, f"{WRONG}/{VERSION}"
    daemon.until_measuring("configmaps", "leases.coordination.k8s.io")
    assert [group["name"] for group in daemon.status()["monitor"]["incompleteGroups"]] == [named]
    assert [entry["group"] for entry in daemon.log("api_group_incomplete")] == [named]
    assert not daemon.log("discovery_failed")
    ((level, text),) = of(deployment.findings(), "resources")
    assert (level, named in text, METRICS in text) == ("warning", True, False)


def test_doctor_names_each_fault_of_a_deployment(deployment: Deployment) -> None:
    (deployment.folder / "other").mkdir()
    other = config_file(deployment.folder / "other", **CONFIG, objective={"threshold": "20s"})
    token = deployment.plane.service_account("blind", BLIND)
    found = deployment.findings(config=other, kubeconfig=deployment.plane.kubeconfig("blind", {"token": token}))
    said = [(one["subject"], one["text"]) for one in problems(found)]
    for subject, words in (
        ("rights", "may not list and watch leases.coordination.k8s.io"),
        ("rules", "differ from the rules"),
    ):
        assert any(subject == about and words in text for about, text in said), said
    assert of(found, "monitor")[0][0] == "unchecked", "this identity may not read monitors"

    change = {"spec": {"podMonitorSelector": {"matchLabels": {"x": "y"}}}}
    with deployment.plane.writer() as writer:
        writer.patch(f"{OPERATOR}/{THEIRS}/prometheuses/hidden-name", change)
    (problem,) = problems(deployment.findings())
    assert problem["text"] == "None of 1 Prometheus object selects 1 PodMonitor of watchslo."
    assert "podMonitorSelector" in problem["remedy"]

    deployment.daemon.process.stop()
    prometheus = deployment.prometheus
    prometheus.process.until(lambda: prometheus.value("up") == 0.0, "noticing")
    stopped = (
        "1 of 1 target cannot be scraped: the connection is refused.",
        "the connection is refused; check that the daemon runs.",
    )

    def explained() -> bool:
        """Prometheus may be too slow for the command."""
        found = problems(deployment.asked())
        return all(any(words in f"{one['text']} {one['remedy']}" for one in found) for words in stopped)

    eventually(explained, "both are explained")
