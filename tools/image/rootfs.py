"""Copies the files that watchslo needs at run time from the build stage to a folder: the content of the image.

The Dockerfile runs it with the Python of the virtual environment to copy. It needs only the standard library:

    /opt/watchslo/bin/python rootfs.py /rootfs

The image gets no shell, no package manager, no compiler and no setuid files.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
LOADER_CACHE = Path("/etc/ld.so.cache")  # locations of libraries outside of the default folders of the loader
WRITTEN = {
    "etc/passwd": "root:x:0:0::/:/none\nnobody:x:65534:65534::/:/none\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
MOUNT_POINTS = ("dev", "proc", "sys")

# Parts of the standard library that watchslo does not import, and tests of packages.
UNUSED = shutil.ignore_patterns(
    *("__pycache__", "config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data"),
    *("site-packages", "sitecustomize.py", "test", "tests", "tkinter", "turtledemo"),
)
NOT_IN_PODS = "/kubernetes_asyncio/"  # 900 modules: it reads kubeconfigs
UNTESTED = shutil.ignore_patterns("__pycache__", "tests")


def main(root: Path) -> None:
    """Fill a folder, which must not exist yet; files keep their paths."""
    environment = Path(sys.prefix)
    _skeleton(root)
    _copy_tree(root, Path(sysconfig.get_path("stdlib")), UNUSED)
    _copy_tree(root, environment, UNTESTED)
    for program in (environment / "bin").iterdir():
        if not program.name.startswith(("python", "watchslo")):
            (root / program.relative_to("/")).unlink()
    interpreter = _interpreter(environment)
    libraries = _libraries([interpreter, *(Path("/") / path.relative_to(root) for path in root.rglob("*.so*"))])
    _copy(root, [interpreter, CERTIFICATES, LOADER_CACHE, *libraries])
    if shutil.which("dpkg-query"):
        _record_packages(root, [interpreter.resolve(), *libraries])
    _compile(root)
    _compile(root, "-o2", "-x", NOT_IN_PODS)  # pods of the profile `node` run without docstrings (PYTHONOPTIMIZE=2)


def _compile(root: Path, *options: str) -> None:
    """Compile all modules without column numbers, which only tracebacks show; print those that cannot be compiled.

    Hashes are unchecked: the files of an image do not change, but their times may.
    """
    command = [sys.executable, "-X", "no_debug_ranges", "-m", "compileall", "-q", "-j0", "-r100", "-s", str(root)]
    subprocess.run([*command, "--invalidation-mode=unchecked-hash", *options, str(root)], check=False)  # noqa: S603 - no shell


def _skeleton(root: Path) -> None:
    """Create the links of the root, such as /lib64, and the files and folders that every program expects."""
    for name, text in WRITTEN.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in MOUNT_POINTS:
        (root / name).mkdir()
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    for link in Path("/").iterdir():
        if link.is_symlink():
            (root / link.readlink()).mkdir(parents=True, exist_ok=True)
            (root / link.name).symlink_to(link.readlink())


def _interpreter(environment: Path) -> Path:
    """Return the interpreter outside of the virtual environment to which its `python` links."""
    path = environment / "bin" / "python"
    while path.is_relative_to(environment):
        path = path.parent / path.readlink()
    return path


def _libraries(programs: Iterable[Path]) -> list[Path]:
    """Return the shared libraries of these programs, and the loader itself."""
    listed = _output("ldd", *map(str, programs))
    return [Path(name) for name in sorted(set(re.findall(r"(/\S+) \(0x[0-9a-f]+\)$", listed, re.MULTILINE)))]


def _record_packages(root: Path, files: Iterable[Path]) -> None:
    """Record the Debian packages and licences of these files where scanners expect them in an image without dpkg."""
    bare = {str(path).removeprefix("/usr") for path in files}
    found = _output("dpkg-query", "--search", *sorted(bare), *sorted(f"/usr{name}" for name in bare))
    for package in sorted(set(re.findall(r"^([a-z0-9][a-z0-9+.-]+)(?::\w+)?: /", found, re.MULTILINE))):
        note = root / "var/lib/dpkg/status.d" / package
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(_output("dpkg-query", "--status", package))
        _copy(root, Path("/usr/share/doc", package).glob("copyright"))


def _output(*command: str) -> str:
    """Return the standard output of a program, even if it fails: dpkg-query does not know every file."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603


def _copy(root: Path, paths: Iterable[Path]) -> None:
    """Copy the targets of these paths under the names of the paths."""
    for path in paths:
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)


def _copy_tree(root: Path, path: Path, ignore: Callable[[str, list[str]], set[str]]) -> None:
    shutil.copytree(path, root / path.relative_to("/"), symlinks=True, ignore=ignore)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
