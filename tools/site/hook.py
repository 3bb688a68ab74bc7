"""The hook of mkdocs: navigation by docs/README.md and CONTRIBUTING.md, pages and pictures outside of docs, links."""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # mkdocs runs in an environment of its own, which does not have these tools

from tools.site import markdown as rules  # noqa: E402

PICTURES = (".png", ".svg")
CONTRIBUTING = "CONTRIBUTING.md"


def on_config(config: Any) -> Any:
    """Take the sections of the index as navigation, then the contributors' pages, then the runbooks."""
    docs = Path(config["docs_dir"])
    sections = rules.sections((docs / rules.INDEX).read_text(), rules.repository_path(rules.INDEX))
    contributors = rules.linked_pages((ROOT / CONTRIBUTING).read_text(), CONTRIBUTING)
    runbooks = sorted(str(page.relative_to(docs)) for page in (docs / rules.RUNBOOKS).glob("*.md"))
    runbooks.sort(key=lambda page: not page.endswith(rules.INDEX))
    further = {"Contribute": {"": contributors}, "Runbooks": {"": runbooks}}
    config["nav"] = [{"Documentation": rules.INDEX}, *rules.navigation(sections | further)]
    config["mdx_configs"]["toc"]["slugify"] = rules.slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add pages outside of docs, and the pictures there that pages show; they keep their paths in the repository."""
    for path in rules.FURTHER_PAGES:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for page in files.documentation_pages():
        text = Path(page.abs_src_path).read_text()
        for path in rules.linked(text, rules.repository_path(page.src_uri)):
            outside = path.endswith(PICTURES) and rules.site_path(path) is None
            if outside and files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(text: str, page: Any, config: Any, **_: Any) -> str:
    """Convert a page. Its links to files outside of the site lead to the repository at this version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    repository = config["repo_url"].rstrip("/")
    source = rules.repository_path(page.file.src_uri)
    page.edit_url = f"{repository}/{config['edit_uri']}{source}"

    def address(path: str) -> str:
        inside = rules.site_path(path) or (path if path.endswith(PICTURES) else None)
        if inside is not None:
            return os.path.relpath(inside, Path(page.file.src_uri).parent)
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{repository}/{kind}/v{version}/{path}"

    return rules.converted(rules.with_links(text, source, address))
