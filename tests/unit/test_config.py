"""Configuration files. Each file in `configs/` has one mistake; its first line is the message after the file's name."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import yaml

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, replay, shown
from watchslo.config.loading import LONGEST_FILE_BYTES, load
from watchslo.config.model import Config
from watchslo.config.sections.clock import BurstConfig
from watchslo.config.sections.shard import ShardConfig
from watchslo.config.sections.watch import WatchConfig
from watchslo.config.values import Listen, format_duration, parse_duration, parse_listen, parse_page
from watchslo.errors import ConfigError
from watchslo.kube.representation import Representation
from watchslo.latency.objective import Objective
from watchslo.model import Resource
from watchslo.watch.strategy import STRATEGIES

MISTAKES = sorted((Path(__file__).parent / "configs").glob("*.yaml"))
PODS = Resource("", "v1", "pods", namespaced=True)
NODES = Resource("", "v1", "nodes", namespaced=False)


def loaded(tmp_path: Path, text: str, **environ: str) -> Config:
    path = tmp_path / "watchslo.yaml"
    path.write_text(text)
    return load(path, environ)[0]


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, {"EMPTY": ""})
    return str(caught.value)


@pytest.mark.parametrize("path", MISTAKES, ids=lambda path: path.stem)
def test_error_names_the_mistake_and_its_remedy(path: Path) -> None:
    expected = path.read_text().splitlines()[0].removeprefix("# ")
    message = refusal(path)
    assert message.removeprefix(f"{path}:").strip() == expected


def test_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "absent.yaml"
    assert refusal(path) == f"{path}: no such file; name a file that exists, or no file to use the defaults"


def test_long_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_bytes(b"#" * LONGEST_FILE_BYTES + b"\npaused: true\n")
    assert refusal(path) == f"{path}: longer than 1 MiB; name a configuration of watchslo"


@pytest.mark.parametrize("merge", ["", "<<: "])
def test_aliases_of_aliases_are_refused_before_they_are_followed(tmp_path: Path, merge: str) -> None:
    """Some three hundred bytes would stand for a billion values."""
    levels = [
        f"a{level}: &a{level} {{{merge or 'x: '}[{', '.join([f'*a{level - 1}'] * 9)}]}}" for level in range(1, 11)
    ]
    path = tmp_path / "watchslo.yaml"
    path.write_text("\n".join(["a0: &a0 {x: y}", *levels]))
    assert refusal(path) == f"{path}: its aliases stand for too much; write it as the documentation shows"


def test_value_may_be_written_once_for_several_watches(tmp_path: Path) -> None:
    text = "watch: [{resource: pods, objective: &late {threshold: 3s}}, {resource: nodes, objective: *late}]"
    first, second = loaded(tmp_path, text).watch
    assert first.objective.threshold == second.objective.threshold == 3.0


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("startDelay: {}s", "is not a duration; write for example 500ms, 1s, 5m or 30d"),
        ("limits: {{maxLine: {}Mi}}", "is not a size; write for example 64Mi"),
        (
            "server: {{listen: 'localhost:{}'}}",
            "is not an address to listen on; write host:port, for example 0.0.0.0:9477",
        ),
    ],
)
def test_very_long_values_are_refused_and_shown_in_part(tmp_path: Path, key: str, what: str) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text(key.format("9" * 50_000))
    message = refusal(path)
    assert message.endswith(f"9… {what}")
    assert len(message) < 400


def test_directory_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: is a directory; name the file in it"


def test_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("watchslo.config.loading.read_file", refuse)  # root could read any file
    path = tmp_path / "watchslo.yaml"
    assert refusal(path) == f"{path}: permission denied; make it readable for the user that runs watchslo"


@pytest.mark.parametrize("content", [b"", b"# only a comment\n", b"null\n"])
def test_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_bytes(content)
    assert refusal(path) == f"{path}: empty; write at least one key, or name no file to use the defaults"


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00", b"cluster: \xff\xfe"])
def test_file_that_is_not_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_bytes(content)
    assert refusal(path) == f"{path}: not YAML: it is not text; save it as UTF-8"


def test_no_file_means_defaults() -> None:
    config, digest = load(None)
    assert digest == ""
    labels = [watch.label for watch in config.watch]
    assert {"pods", "leases.coordination.k8s.io"} <= set(labels)
    assert "secrets" not in labels
    assert config.server.listen == Listen("", 9477), "all addresses of both families: a pod may have IPv6 only"


def test_defaults_are_what_an_empty_mapping_gives(tmp_path: Path) -> None:
    assert loaded(tmp_path, "{}") == Config()


def test_hash_follows_the_content(tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("paused: true")
    first = load(path)[1]
    path.write_text("paused: false")
    second = load(path)[1]
    path.write_text("paused: true")
    assert first == load(path)[1] != second


def test_every_key_can_be_set(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
        cluster: 7
        kubernetes:
          {kubeconfig: ~/elsewhere, context: prod, apiservers: each, witnesses: none, tlsServerName: apiserver.internal,
           apiserverMetrics: true}
        watch:
          - resource: pods
            name: my-node
            namespace: default
            fieldSelector: spec.nodeName=${NODE_NAME}
          - resource: deployments.v1.apps
            list: parallel
            pageSize: 1000
            inventory: true
            representation: metadata
            creation: true
            hops: true
            objective: {threshold: 2s, events: {target: 0.9}}
          - resource: jobs.batch
            divide: {by: label, key: example.com/team, values: [a, b]}
          - resource: services
            shardSelector: shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')
            divide: {by: namespace, values: [ci]}
          - resource: events
            divide: {by: shardSelector, parts: 4}
          - &star
            resource: "*"
            labelSelector: app=web
            namespace: null
        exclude: [events, leases.coordination.k8s.io]
        clients:
          - {name: kube-scheduler, url: "https://10.0.0.7:10259/metrics", authorization: kubernetes,
             insecureSkipVerify: true, selected: [pods]}
          - {name: mine, url: "https://mine.web:8443/metrics", caFile: /ca.crt}
        clock: {interval: 250ms, namespace: kube-system, storage: etcd}
        objective:
          threshold: 1500ms
          events: {target: 0.95, period: 7d}
          minutes: {quantile: 0.9, window: 2m, target: 0.99, minEvents: 50}
        limits:
          {requestsPerSecond: 12.5, resumesPerSecond: 60, auditsPerSecond: 0.5, probesPerSecond: 1.5,
           watches: 20, maxLine: 8MiB}
        shard: {index: "watchslo-${ORDINAL}", count: 3}
        startDelay: 2m
        paused: true
        metrics: full
        server:
          listen: "[::1]:0"
          tls: {certFile: /tls/tls.crt, keyFile: /tls/tls.key}
          authorization: kubernetes
          limits: {connections: 64, maxHeader: 8Ki, requestTimeout: 5s, idleTimeout: 2m}
          view: https://view.test/watchslo
        log: {format: console, level: debug}
        """,
        NODE_NAME="node-1",
        ORDINAL="2",
    )
    assert (config.shard.index, config.shard.count, config.start_delay) == (2, 3, 120)
    assert config.cluster == "7"
    assert config.kubernetes.kubeconfig == os.path.expanduser("~/elsewhere")  # noqa: PTH111 - what the user means by ~
    assert (config.kubernetes.apiservers, config.kubernetes.tls_server_name) == ("each", "apiserver.internal")
    assert config.kubernetes.witnesses == "none"
    mine, deployments, _, services, _, everything = config.watch
    assert [watch.hops for watch in config.watch] == [False, True, False, False, False, False]
    assert [len(watch.parts) for watch in config.watch] == [1, 1, 3, 2, 4, 1]
    assert {part.field_selector for part in services.parts} == {"metadata.namespace=ci", "metadata.namespace!=ci"}
    assert {part.shard_selector for part in services.parts} == {services.shard_selector}
    assert config.limits.probes_per_second == 1.5
    scheduler, mine_too = config.clients
    assert (scheduler.authorization, scheduler.insecure_skip_verify, scheduler.selected) == (
        "kubernetes",
        True,
        ("pods",),
    )
    assert (mine_too.authorization, mine_too.ca_file) == ("none", "/ca.crt")
    server, most = config.server, config.server.limits
    assert server.tls is not None
    assert (server.tls.cert_file, server.tls.key_file) == ("/tls/tls.crt", "/tls/tls.key")
    assert (most.connections, most.max_header, most.request_timeout, most.idle_timeout) == (64, 8192, 5.0, 120.0)
    assert (mine.label, mine.field_selector, mine.strategy) == ("my-node", "spec.nodeName=node-1", "tail")
    assert (deployments.label, deployments.strategy) == ("deployments.v1.apps", "parallel")
    assert (deployments.page_size, deployments.inventory) == (1000, True)
    assert (everything.page_size, everything.inventory) == (500, False)
    assert everything.namespace is None
    assert (config.limits.max_line, config.limits.audits_per_second) == (8 * 2**20, 0.5)
    assert (config.clock.interval, config.clock.storage) == (0.25, "etcd")
    assert config.server.listen == Listen("::1", 0)
    assert config.server.view == "https://view.test/watchslo"
    assert (config.paused, config.metrics) == (True, "full")


def test_resource_alone_is_short_for_its_mapping(tmp_path: Path) -> None:
    short = loaded(tmp_path, "watch: [pods, {resource: nodes}, secrets]")
    assert short == loaded(tmp_path, "watch: [{resource: pods}, {resource: nodes}, {resource: secrets}]")


def test_values_are_read_as_the_golden_file_says(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    def address(text: str) -> str:
        written, _, host = text.partition(" at ")
        kubernetes = loaded(tmp_path, f"kubernetes: {{apiservers: ['{written}']}}", HOST_IP=host).kubernetes
        assert kubernetes.tls_server_name is None
        return kubernetes.apiservers[0]

    def part(text: str) -> str:
        config = loaded(tmp_path, text)
        return f"{config.part or 'all'}{f', of the node {config.node}' if config.node else ''}"

    def namespaces(text: str) -> str:
        config = loaded(tmp_path, text)
        assert config.clock_in_force.namespace == config.tick_namespaces[0]
        return shown(config.tick_namespaces)

    def representation(text: str) -> str:
        plural, _, keys = text.partition(" ")
        resource = {one.plural: one for one in (PODS, NODES)}[plural]
        watch = WatchConfig.model_validate({"resource": plural, **yaml.load(keys, yaml.BaseLoader)})
        creation = ", measures creation" if watch.measures_creation(resource) else ""
        return f"{watch.representation_of(resource)}{creation}"

    readers: dict[str, Callable[[str], object]] = {
        "duration": parse_duration,
        "listen": lambda text: "{0.host} {0.port}".format(parse_listen(text)).strip(),
        "page": parse_page,
        "apiserver": address,
        "part": part,
        "namespaces": namespaces,
        "representation": representation,
        "shard": lambda text: loaded(tmp_path, f"shard: {{index: {text}, count: 3}}").shard.index,
    }

    def begin(kind: str) -> Step:
        def step(text: str) -> str:
            try:
                return shown(readers[kind](text))
            except ValueError as error:
                return f"refused: {error}"

        return step

    golden("config-values.txt", replay((GOLDEN / "config-values.txt").read_text(), begin))


def test_ipv6_address_from_the_environment_has_no_brackets_elsewhere(tmp_path: Path) -> None:
    text = "{watch: [{resource: pods, fieldSelector: 'status.podIP=${POD_IP}'}]}"
    (watch,) = loaded(tmp_path, text, POD_IP="2001:db8::7").watch
    assert watch.field_selector == "status.podIP=2001:db8::7"


def test_watch_overrides_only_its_own_values(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        """
        objective: {threshold: 2s, events: {target: 0.9, period: 7d}, minutes: {minEvents: 50}}
        watch:
          - {resource: pods}
          - {resource: nodes, objective: {events: {target: 0.99}, minutes: {window: 1m, minEvents: 100}}}
          - {resource: leases.coordination.k8s.io, objective: {threshold: 1s}}
        """,
    )
    common = Objective(threshold=2.0, events_target=0.9, min_events=50)
    assert [config.objective_of(watch) for watch in config.watch] == [
        common,
        replace(common, events_target=0.99, min_events=100),
        replace(common, threshold=1.0),
    ]
    assert config.objective.events.period == 7 * 86400


def test_default_objective_is_the_one_of_the_core() -> None:
    config = Config()
    assert config.objective_of(config.watch[0]) == Objective()


def test_merge_keys_work(tmp_path: Path) -> None:
    config = loaded(tmp_path, "watch: [&a {resource: pods, namespace: x}, {<<: *a, name: again}]")
    assert config.watch[1].namespace == "x"


@pytest.mark.parametrize("text", ["metrics: proven", "mode: node\nmetrics: proven", "metrics: ${LEVEL}"])
def test_metrics_proven_is_accepted_as_mode_node_with_one_warning(tmp_path: Path, text: str) -> None:
    path, warnings = tmp_path / "watchslo.yaml", list[str]()
    path.write_text(f"{text}\nclock: {{interval: 30s}}")
    config, _ = load(path, {"LEVEL": "proven"}, warnings.append)
    assert (config.mode, config.detail) == ("node", "node")
    line = len(text.splitlines())
    assert warnings == [f"{path}:{line}: metrics: proven is outdated; write mode: node instead"]


def test_metrics_proven_contradicts_mode_cluster(tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("mode: cluster\nmetrics: proven")
    assert refusal(path) == f"{path}:2: metrics: proven is not possible; write 'basic' or 'full'"


def test_levels_of_metrics_and_modes_need_no_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    details = [loaded(tmp_path, text).detail for text in ("mode: cluster", "metrics: full", "mode: node")]
    assert (details, capsys.readouterr().err) == (["basic", "full", "node"], "")


@pytest.mark.parametrize(
    "text",
    [
        "clock: {interval: 10s}\nmode: node",
        "clock: {interval: 1s}\nobjective: {threshold: 2s}",
        "objective: {threshold: 100ms}",  # with the default interval
    ],
)
def test_interval_may_be_as_long_as_the_threshold_permits(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text)


LABELS = [f"resource-{number}.example.com" for number in range(600)]


def owners(count: int) -> list[int]:
    """Return the shard of each label."""
    shards = [ShardConfig(index=index, count=count) for index in range(count)]
    found = [[shard.index for shard in shards if shard.has(label)] for label in LABELS]
    assert all(len(mine) == 1 for mine in found)
    return [mine[0] for mine in found]


def test_each_watch_has_one_shard_and_shards_have_similar_sizes() -> None:
    sizes = Counter(owners(3)).values()
    assert len(sizes) == 3
    assert all(160 <= size <= 240 for size in sizes)
    assert set(owners(1)) == {0}


def test_additional_shard_takes_its_part_and_moves_nothing_else() -> None:
    moved = [(old, new) for old, new in zip(owners(3), owners(4), strict=True) if old != new]
    assert {new for _, new in moved} == {3}
    assert 110 <= len(moved) <= 190


def test_shards_are_the_same_in_every_version() -> None:
    """During a rollout, two versions run at once and must not leave a watch unassigned."""
    assert owners(3)[:20] == [0, 2, 2, 2, 2, 0, 1, 1, 0, 2, 0, 1, 1, 1, 1, 2, 0, 1, 1, 0]


def test_low_request_rate_is_accepted_without_audits(tmp_path: Path) -> None:
    assert loaded(tmp_path, "limits: {requestsPerSecond: 6.1}").limits.audits_per_second == 2
    assert loaded(tmp_path, "limits: {requestsPerSecond: 2.1, auditsPerSecond: 0}").limits.audits_per_second == 0


def test_burst_keeps_within_the_guaranteed_share_of_ticks(tmp_path: Path) -> None:
    assert loaded(tmp_path, "{}").clock_in_force.burst == BurstConfig()
    low = loaded(tmp_path, "limits: {requestsPerSecond: 8}").clock_in_force
    assert (low.burst.rate, low.interval) == (4.0, 0.5)
    assert loaded(tmp_path, "clock: {burst: {rate: 5, ticksPerHour: 60}}").clock_in_force.burst.ticks_per_hour == 60
    assert loaded(tmp_path, "mode: node").clock_in_force.burst.ticks_per_hour == 0


def test_shortest_threshold_is_that_of_all_watches(tmp_path: Path) -> None:
    assert loaded(tmp_path, "{}").shortest_threshold == 1.0
    watches = "watch: [{resource: pods}, {resource: nodes, objective: {threshold: 500ms}}]"
    assert loaded(tmp_path, watches).shortest_threshold == 0.5


def test_probes_need_no_share_of_the_request_rate(tmp_path: Path) -> None:
    assert loaded(tmp_path, "limits: {probesPerSecond: 100}").limits.requests_per_second == 20
    assert loaded(tmp_path, "limits: {probesPerSecond: 0}").limits.probes_per_second == 0


def test_star_may_have_hops(tmp_path: Path) -> None:
    assert loaded(tmp_path, 'watch: [{resource: "*", hops: true}]').watch[0].hops


def test_listed_addresses_may_have_a_tls_server_name(tmp_path: Path) -> None:
    config = loaded(tmp_path, "kubernetes: {apiservers: ['https://10.0.0.7'], tlsServerName: kubernetes}").kubernetes
    assert config.tls_server_name == "kubernetes"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_can_be_chosen(strategy: str) -> None:
    assert WatchConfig.model_validate({"resource": "pods", "list": strategy}).strategy == strategy


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "tail"])
def test_strategies_with_pages_accept_a_page_size(strategy: str) -> None:
    assert WatchConfig.model_validate({"resource": "pods", "list": strategy, "pageSize": "1"}).page_size == 1


def test_every_representation_can_be_chosen() -> None:
    choices = get_args(WatchConfig.model_fields["representation"].annotation)
    assert {*choices} == {"auto", *Representation}


@pytest.mark.parametrize(
    ("parse", "text"), [(parse_duration, ""), (parse_duration, "1s "), (parse_page, "http://a/\n")]
)
def test_empty_text_and_spaces_at_the_end_are_refused(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse(text)


@pytest.mark.parametrize("text", ["500ms", "1s", "90s", "5m", "2h", "30d"])
def test_format_duration_inverts_parse_duration(text: str) -> None:
    assert format_duration(parse_duration(text)) == text
