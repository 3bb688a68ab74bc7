"""Gathers what watchslo needs of the stage that installed it: all that the image will hold.

The Dockerfile runs it by the Python of the virtual environment that is to be gathered, and it needs nothing else:

    /opt/watchslo/bin/python rootfs.py /rootfs

No shell comes along, no package manager, no compiler, and nothing that is setuid.
"""

import compileall
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from py_compile import PycInvalidationMode

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
LOADER_CACHE = Path("/etc/ld.so.cache")  # where libraries are that lie in none of the loader's own folders
WRITTEN = {
    "etc/passwd": "root:x:0:0::/:/none\nnobody:x:65534:65534::/:/none\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
MOUNTED_UPON = ("dev", "proc", "sys")

# What of the standard library nobody here imports, and what packages test themselves with.
UNUSED = shutil.ignore_patterns(
    *("__pycache__", "config-*", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data"),
    *("site-packages", "sitecustomize.py", "test", "tests", "tkinter", "turtledemo"),
)
UNTESTED = shutil.ignore_patterns("__pycache__", "tests")


def main(root: Path) -> None:
    """Fills the folder, which must not be there yet; things lie in it where they lie here."""
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
        _tell_packages(root, [interpreter.resolve(), *libraries])
    # By their hash, which nobody checks: files of an image do not change, but their times might.
    compileall.compile_dir(
        root,
        maxlevels=100,
        stripdir=str(root),
        quiet=1,
        workers=0,
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )


def _skeleton(root: Path) -> None:
    """The root's own links, such as /lib64, and what every program expects there."""
    for name, text in WRITTEN.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in MOUNTED_UPON:
        (root / name).mkdir()
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    for link in Path("/").iterdir():
        if link.is_symlink():
            (root / link.readlink()).mkdir(parents=True, exist_ok=True)
            (root / link.name).symlink_to(link.readlink())


def _interpreter(environment: Path) -> Path:
    """The path, outside of the virtual environment, that its `python` is a link to."""
    path = environment / "bin" / "python"
    while path.is_relative_to(environment):
        path = path.parent / path.readlink()
    return path


def _libraries(programs: Iterable[Path]) -> list[Path]:
    """All that the loader opens for them, and the loader itself."""
    told = _said("ldd", *map(str, programs))
    return [Path(name) for name in sorted(set(re.findall(r"(/\S+) \(0x[0-9a-f]+\)$", told, re.MULTILINE)))]


def _tell_packages(root: Path, files: Iterable[Path]) -> None:
    """Says of which packages these are, where scanners look in an image without dpkg, and under which licence."""
    bare = {str(path).removeprefix("/usr") for path in files}
    told = _said("dpkg-query", "--search", *sorted(bare), *sorted(f"/usr{name}" for name in bare))
    for package in sorted(set(re.findall(r"^([a-z0-9][a-z0-9+.-]+)(?::\w+)?: /", told, re.MULTILINE))):
        note = root / "var/lib/dpkg/status.d" / package
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(_said("dpkg-query", "--status", package))
        _copy(root, Path("/usr/share/doc", package).glob("copyright"))


def _said(*command: str) -> str:
    """What a program answers, also where it does not know all that it is asked for."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603


def _copy(root: Path, paths: Iterable[Path]) -> None:
    """Puts there what these paths lead to, under these very names."""
    for path in paths:
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)


def _copy_tree(root: Path, path: Path, ignore: Callable[[str, list[str]], set[str]]) -> None:
    shutil.copytree(path, root / path.relative_to("/"), symlinks=True, ignore=ignore)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
