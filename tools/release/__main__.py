"""`python -m tools.release` builds a release into `dist`; `notes` prints what CHANGELOG.md says of its version."""

import shutil
import sys
import tempfile
from pathlib import Path

import click

from tools.release.build import BILL, Programs, bill_of_materials, release
from tools.release.changelog import notes
from tools.release.checkout import changed, export
from tools.release.errors import ReleaseError

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"


@click.group()
def commands() -> None:
    """Build what a release consists of."""


@commands.command()
@click.option("--helm", type=click.Path(path_type=Path), required=True, help="The program Helm.")
@click.option("--site-python", type=click.Path(path_type=Path), required=True, help="A Python that has mkdocs.")
@click.option("--tag", help="Refuse the release if this tag must not be given to it.")
def build(helm: Path, site_python: Path, tag: str | None) -> None:
    """Build all files of a release from the last commit, and print them."""
    shutil.rmtree(DIST, ignore_errors=True)
    made = release(ROOT, DIST, Programs(helm.absolute(), site_python.absolute()), tag)
    for path in made:
        click.echo(f"{path.stat().st_size / 1e6:8.3f} MB  {path.name}")
    if changes := changed(ROOT):
        click.echo(f"built from the last commit: it does not have the changes in {len(changes)} files", err=True)


@commands.command()
def sbom() -> None:
    """Write the bill of materials of the last commit."""
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        bill_of_materials(export(ROOT, Path(folder)), DIST)
    click.echo(DIST / BILL)


@commands.command(name="notes")
def print_notes() -> None:
    """Print the notes of the version."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = export(ROOT, Path(folder))
        click.echo(notes(checkout.changelog, checkout.version))


def main() -> int:
    """Run a command; prints one sentence if the release is refused."""
    try:
        commands(standalone_mode=False)
    except (ReleaseError, click.ClickException) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
