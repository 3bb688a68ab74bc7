"""The plugin for krew: a small launcher, because krew cannot install Python packages, and its manifest."""

import hashlib
from dataclasses import dataclass
from typing import Any

from tools.release.archive import packed
from watchslo.app.rules import as_yaml

LAUNCHER = "kubectl-watchslo"
LICENSE = "LICENSE"
SCRIPT = """\
#!/bin/sh
# Runs watchslo {version} by pipx or uv, which download it the first time: krew installs no Python packages.
wheel='watchslo[top] @ {wheel}#sha256={sha256}'
if command -v pipx > /dev/null; then
  exec pipx run --quiet --spec "$wheel" {launcher} "$@"
elif command -v uv > /dev/null; then
  exec uv tool run --quiet --from "$wheel" {launcher} "$@"
fi
echo "kubectl watchslo: there is neither pipx nor uv to run watchslo with: install one of them" >&2
exit 2
"""
DESCRIPTION = """\
Measures the time from the commit of a change in etcd to the arrival of its
watch event at a client, from outside the apiserver and without writing
anything. It shows P99 with proven bounds, the likely cause of lateness, and
whether events are lost, repeated or out of order.

"kubectl watchslo check" measures for a minute, and "kubectl watchslo top" shows
live figures.
"""
CAVEATS = """\
This plugin is one shell script. It runs watchslo by pipx or uv, one of which
must be installed, with Python 3.11 to 3.13. At the first use, these download
watchslo from its release, and its dependencies from your package index. pipx
checks that watchslo has the hash that is written in the script; uv does not.
"""


@dataclass(frozen=True, slots=True)
class Plugin:
    """What krew needs to know: the version, the home page, and the address of the files of the release."""

    version: str
    homepage: str
    downloads: str

    @property
    def archive_name(self) -> str:
        return f"{LAUNCHER}-{self.version}.tar.gz"


def archive(plugin: Plugin, wheel: str, content: bytes, license_text: bytes, time: int) -> bytes:
    """Return the archive that krew downloads; the launcher runs the wheel of this name and content, and no other."""
    script = SCRIPT.format(
        version=plugin.version,
        wheel=f"{plugin.downloads}/{wheel}",
        sha256=hashlib.sha256(content).hexdigest(),
        launcher=LAUNCHER,
    )
    files = {LAUNCHER: script.encode(), LICENSE: license_text}
    return packed(files, time, frozenset({LAUNCHER}))


def manifest(plugin: Plugin, packed_archive: bytes) -> str:
    """Return the manifest for an index of krew."""
    systems = [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]
    document: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "watchslo"},
        "spec": {
            "version": f"v{plugin.version}",
            "homepage": plugin.homepage,
            "shortDescription": "Measure how late watch events are",
            "description": DESCRIPTION,
            "caveats": CAVEATS,
            "platforms": [
                {
                    "selector": {"matchExpressions": systems},
                    "uri": f"{plugin.downloads}/{plugin.archive_name}",
                    "sha256": hashlib.sha256(packed_archive).hexdigest(),
                    "files": [{"from": name, "to": "."} for name in (LAUNCHER, LICENSE)],
                    "bin": LAUNCHER,
                }
            ],
        },
    }
    return as_yaml(document)
