"""The hook of mkdocs: navigation from docs/README.md and CONTRIBUTING.md, links and pictures of other files."""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # mkdocs runs in an environment of its own, which does not have these tools

from tools.site import markdown as rules  # noqa: E402

DOCS = "docs"
PICTURES = (".png", ".svg")
INDEX = "README.md"
CONTRIBUTING = "CONTRIBUTING.md"
RUNBOOKS = "runbooks"


def on_config(config: Any) -> Any:
    """Take the sections of the index as navigation, then the contributors' pages, then the runbooks."""
    docs = Path(config["docs_dir"])
    pages = sorted(str(path.relative_to(docs)) for path in (docs / RUNBOOKS).glob("*.md"))
    runbooks = [page for page in pages if page != f"{RUNBOOKS}/{INDEX}"]
    contributors = rules.inside((ROOT / CONTRIBUTING).read_text(), CONTRIBUTING, DOCS)
    further = {"Contribute": contributors, "Runbooks": [f"{RUNBOOKS}/{INDEX}", *runbooks]}
    sections = rules.sections((docs / INDEX).read_text()) | further
    listed: set[str] = {INDEX}
    nav: list[Any] = [{"Documentation": INDEX}]
    for title, pages in sections.items():
        left = [page for page in pages if page not in listed and (title == "Runbooks" or RUNBOOKS not in page)]
        listed.update(left)
        nav.append({title: left})
    config["nav"] = nav
    config["mdx_configs"]["toc"]["slugify"] = rules.slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pictures outside of docs that pages show; they keep their paths in the repository."""
    for page in files.documentation_pages():
        text = Path(page.abs_src_path).read_text()
        for path in rules.outside(text, f"{DOCS}/{page.src_uri}", DOCS):
            if path.endswith(PICTURES) and files.get_file_from_path(path) is None:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(text: str, page: Any, config: Any, **_: Any) -> str:
    """Convert a page, and let its links to files outside of docs lead to the repository at this version."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    repository = config["repo_url"].rstrip("/")

    def address(path: str) -> str | None:
        if path.startswith(f"{DOCS}/"):
            return None
        if path.endswith(PICTURES):
            return os.path.relpath(path, Path(page.file.src_uri).parent)
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{repository}/{kind}/v{version}/{path}"

    return rules.converted(rules.link_outside(text, f"{DOCS}/{page.file.src_uri}", address))
