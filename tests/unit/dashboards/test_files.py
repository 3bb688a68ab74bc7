"""The README of the dashboards, Grafana's provisioning and the compose file match the dashboards."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "dashboards"
COMPOSE = ROOT / "deploy/compose"
PAGE = (FOLDER / "README.md").read_text()


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


SERVICES: dict[str, Any] = load(COMPOSE / "compose.yaml")["services"]
(PROVIDER,) = load(FOLDER / "provisioning/dashboards/watchslo.yaml")["providers"]
(SOURCE,) = load(FOLDER / "provisioning/datasources/prometheus.yaml")["datasources"]


def mounts(service: str) -> dict[str, str]:
    """Return the volumes of a service: source by mount path."""
    return {(parts := volume.split(":"))[1]: parts[0] for volume in SERVICES[service].get("volumes", ())}


class TestReadme:
    def test_readme_shows_and_links_every_dashboard(self) -> None:
        for path in FOLDER.glob("*.json"):
            assert f"]({path.name})" in PAGE
            assert f"](pictures/{path.stem}.png)" in PAGE

    def test_links_lead_to_existing_files(self) -> None:
        links = re.findall(r"\]\((?!https?:)([^)#]+)", PAGE)
        assert [link for link in links if not (FOLDER / link).exists()] == []

    def test_pictures_belong_to_a_dashboard_and_are_small(self) -> None:
        for path in (FOLDER / "pictures").iterdir():
            assert (FOLDER / f"{path.stem}.json").exists()
            assert path.stat().st_size < 400_000


class TestCompose:
    def test_grafana_mounts_dashboards_and_provisioning(self) -> None:
        mounted = mounts("grafana")
        assert (COMPOSE / mounted[PROVIDER["options"]["path"]]).resolve() == FOLDER
        assert (COMPOSE / mounted["/etc/grafana/provisioning"]).resolve() == FOLDER / "provisioning"
        home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        assert (FOLDER / Path(home).relative_to(PROVIDER["options"]["path"])).exists()

    def test_data_source_is_the_prometheus_service(self) -> None:
        address = urlsplit(SOURCE["url"])
        assert address.hostname in SERVICES
        assert f"127.0.0.1:{address.port}:{address.port}" in SERVICES[address.hostname]["ports"]
        scraped = load(COMPOSE / "prometheus.yaml")["global"]["scrape_interval"]
        assert SOURCE["jsonData"]["timeInterval"] == scraped

    def test_prometheus_mounts_configuration_and_rules(self) -> None:
        mounted = mounts("prometheus")
        assert (COMPOSE / mounted["/etc/prometheus/prometheus.yml"]).resolve() == COMPOSE / "prometheus.yaml"
        (rules,) = load(COMPOSE / "prometheus.yaml")["rule_files"]
        volume = mounted[str(Path(rules).parent)]
        written = SERVICES["rules"]["entrypoint"][-1].split("> ")[-1]
        assert mounts("rules")[str(Path(written).parent)] == volume
        assert Path(written).match(Path(rules).name)

    def test_prometheus_scrapes_the_demo(self) -> None:
        (job,) = load(COMPOSE / "prometheus.yaml")["scrape_configs"]
        (target,) = job["static_configs"][0]["targets"]
        service, _, port = target.partition(":")
        assert SERVICES[service]["command"][-1] == f"0.0.0.0:{port}"

    def test_image_is_built_from_the_dockerfile(self) -> None:
        assert (COMPOSE / SERVICES["demo"]["build"]).resolve() == ROOT
        build = SERVICES["rules"]["build"]
        assert (COMPOSE / build["context"]).resolve() == ROOT
        assert f" AS {build['target']}\n" in (ROOT / "Dockerfile").read_text()

    def test_ports_listen_on_localhost_only(self) -> None:
        ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
        assert ports
        assert all(port.startswith("127.0.0.1:") for port in ports)
