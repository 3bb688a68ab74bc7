"""The documentation as a site: all pages, a search, links that lead somewhere, and several versions."""

import json
import os
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools.release import archive
from tools.release.checkout import Checkout
from tools.site.markdown import FURTHER_PAGES, resolved

ROOT = Path(__file__).parents[2]
SITE_PYTHON = ROOT / ".cache/site/bin/python"
LOADED = {("script", "src"), ("img", "src"), ("link", "href")}
OF_OTHER_PAGES = {"canonical"}
"""Relations of a `link` that a browser does not load."""


class Page(HTMLParser):
    """The links, the loaded files and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if given.get("rel") in OF_OTHER_PAGES:
            return
        self.links += [given["href"]] if tag == "a" and "href" in given else []
        self.loaded += [value for name, value in given.items() if (tag, name) in LOADED]


@pytest.fixture(scope="module")
def files(dist: Path, checkout: Checkout) -> dict[str, bytes]:
    return archive.unpacked((dist / f"watchslo-site-{checkout.version}.tar.gz").read_bytes())


@pytest.fixture(scope="module")
def pages(files: dict[str, bytes]) -> dict[str, Page]:
    """The pages by name; that for unknown addresses has absolute links, because it may be shown anywhere."""
    return {name: Page(text.decode()) for name, text in files.items() if name.endswith(".html") and name != "404.html"}


def named(page: Path) -> str:
    """Return the name in the site of a page of docs."""
    return str(page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html"))


def test_every_page_is_there_and_can_be_searched(files: dict[str, bytes], checkout: Checkout) -> None:
    docs = checkout.folder / "docs"
    wanted = {named(page.relative_to(docs)) for page in docs.rglob("*.md")} | {
        named(Path(page)) for page in FURTHER_PAGES
    }
    assert len(wanted) > 50
    assert wanted | {"404.html", "sitemap.xml"} <= files.keys()
    found = json.loads(files["search/search_index.json"])["docs"]
    assert {entry["location"].partition("#")[0] for entry in found} == wanted
    assert any("resourceVersion" in entry["text"] for entry in found)


def test_links_lead_to_pages_and_their_anchors(files: dict[str, bytes], pages: dict[str, Page]) -> None:
    broken = []
    for name, page in pages.items():
        for link in (*page.links, *page.loaded):
            parts = urlsplit(unquote(link))
            if parts.scheme or parts.netloc:
                continue
            target = resolved(name, parts.path) if parts.path else name
            target = target if target in files else f"{target}/index.html".lstrip("/")
            if target not in files or (parts.fragment and parts.fragment not in pages[target].anchors):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_links_into_the_repository_lead_to_files_of_this_version(pages: dict[str, Page], checkout: Checkout) -> None:
    repository, version = checkout.project["urls"]["Source"], checkout.version
    seen = set()
    for page in pages.values():
        for link in page.links:
            kind, _, rest = link.removeprefix(f"{repository}/").partition(f"/v{version}/")
            if link.startswith(repository) and kind in {"blob", "tree"}:
                path = checkout.folder / rest.partition("#")[0]
                assert path.is_dir() if kind == "tree" else path.is_file(), link
                seen.add(kind)
    assert seen == {"blob", "tree"}


def test_every_page_can_be_edited(pages: dict[str, Page], checkout: Checkout) -> None:
    edit = f"{checkout.project['urls']['Source']}/edit/main/"
    for name, page in pages.items():
        sources = {link.removeprefix(edit) for link in page.links if link.startswith(edit)}
        assert [(checkout.folder / source).is_file() for source in sources] == [True], name
        assert name in {named(Path(source.removeprefix("docs/"))) for source in sources}


def test_pages_load_nothing_from_other_servers(pages: dict[str, Page]) -> None:
    assert [one for page in pages.values() for one in page.loaded if urlsplit(one).netloc] == []


def test_site_has_a_dark_mode(files: dict[str, bytes]) -> None:
    assert b'data-md-color-scheme="slate"' in files["index.html"]


def test_site_keeps_the_pages_of_other_versions(checkout: Checkout, tmp_path: Path) -> None:
    """As the workflow publishes it, in a clone and without a push."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    programs = {"PATH": f"{SITE_PYTHON.parent}:{os.environ['PATH']}"}  # mike calls mkdocs by its name
    author = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    env = os.environ | programs | dict.fromkeys(author, "test@example.org")
    deploy = [
        str(SITE_PYTHON.with_name("mike")),
        "deploy",
        "--update-aliases",
        "--config-file",
        "tools/site/mkdocs.yml",
    ]
    newest = checkout.version.rpartition(".")[0]
    for version in ("0.0", newest):
        subprocess.run([*deploy, version, "latest"], cwd=clone, env=env, check=True, capture_output=True)
    shown = subprocess.run(
        ["git", "show", "gh-pages:versions.json"], cwd=clone, check=True, capture_output=True, text=True
    ).stdout
    assert [(one["version"], one["aliases"]) for one in json.loads(shown)] == [(newest, ["latest"]), ("0.0", [])]
