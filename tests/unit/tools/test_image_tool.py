"""The parts of the image build that need no image."""

import marshal
import re
import sys
from pathlib import Path

import pytest

from tools.image import build, rootfs

ROOT = Path(__file__).parents[3]
PYC_HEADER_BYTES = 16  # https://peps.python.org/pep-0552/


def test_pip_settings_are_merged_by_precedence() -> None:
    listed = """:env:.find-links='/opt/wheels'
:env:.timeout='30'
freeze.timeout='10'
global.cert='/etc/ssl/mine.pem'
global.extra-index-url='https://one.invalid\\nhttps://two.invalid'
global.index-url='https://elsewhere.invalid/simple'
global.timeout='20'
install.index-url='https://user:word@mirror.invalid/simple'
"""
    assert build._pip_settings(listed) == [
        "extra-index-url = https://one.invalid https://two.invalid",
        "index-url = https://user:word@mirror.invalid/simple",
        "timeout = 30",
    ]


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("trixie http://a.invalid/\nbookworm http://b.invalid/\nbookworm http://c.invalid/\n", "http://b.invalid/"),
        ("noble http://a.invalid/\n", None),
    ],
)
def test_mirror_is_the_first_apt_source_of_the_suite(
    listed: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "run", lambda *_: listed)
    if found:
        assert build._mirror() == found
    else:
        with pytest.raises(build.ImageError, match="apt has no source for Debian bookworm"):
            build._mirror()


def test_base_archive_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[str] = []

    def run(*command: str | Path) -> str:
        programs.append(str(command[0]))
        if command[0] == "tar":
            Path(command[command.index("--file") + 1]).touch()
        return "bookworm http://mirror.invalid/\n"

    monkeypatch.setattr(build, "run", run)
    archive = build.base_archive({"XDG_CACHE_HOME": str(tmp_path)})
    assert archive == build.base_archive({"XDG_CACHE_HOME": str(tmp_path)})
    assert archive.is_file()
    assert programs == ["apt-get", "debootstrap", "tar"]


def test_build_needs_debian_packages_and_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(
        build.ImageError, match="buildah is not installed: install the Debian package of that name, or run `docker b"
    ):
        build.build("r")
    monkeypatch.undo()
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(build.ImageError, match="run this as root, or run `docker build"):
        build.build("r")


def test_interpreter_is_outside_of_the_virtual_environment() -> None:
    found = rootfs._interpreter(Path(sys.prefix))
    assert not found.is_relative_to(sys.prefix)
    assert found.resolve() == Path(sys.executable).resolve()


def test_libraries_include_libc_and_the_loader() -> None:
    names = {path.name for path in rootfs._libraries([Path(sys.executable).resolve()])}
    assert {"libc.so.6"} < names
    assert any(name.startswith("ld-linux") for name in names)


def test_skeleton_has_the_links_of_the_root(tmp_path: Path) -> None:
    rootfs._skeleton(tmp_path / "root")
    links = {path.name for path in (tmp_path / "root").iterdir() if path.is_symlink()}
    assert links == {path.name for path in Path("/").iterdir() if path.is_symlink()}
    assert (tmp_path / "root/tmp").stat().st_mode & 0o7777 == 0o1777
    assert "\nnobody:x:65534:65534" in (tmp_path / "root/etc/passwd").read_text()


def test_dockerignore_admits_exactly_the_copied_files() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert {f"!{path}" for line in copied for path in line.split()} == {line for line in ignored if line[0] == "!"}
    assert all((ROOT / line[1:]).exists() for line in ignored if line[0] == "!")


def test_modules_are_compiled_with_docstrings_and_without(tmp_path: Path) -> None:
    for folder in ("aiohttp", "kubernetes_asyncio"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "module.py").write_text('"""A docstring."""\n')
    rootfs._compile(tmp_path)
    rootfs._compile(tmp_path, "-o2", "-x", rootfs.NOT_IN_PODS)
    tag = sys.implementation.cache_tag
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.pyc")} == {
        f"aiohttp/__pycache__/module.{tag}.pyc",
        f"aiohttp/__pycache__/module.{tag}.opt-2.pyc",
        f"kubernetes_asyncio/__pycache__/module.{tag}.pyc",
    }


def test_compiled_modules_have_no_column_numbers(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("value = 1\n")
    rootfs._compile(tmp_path)
    (compiled,) = tmp_path.rglob("*.pyc")
    code = marshal.loads(compiled.read_bytes()[PYC_HEADER_BYTES:])
    assert {columns for *_, first, last in code.co_positions() for columns in (first, last)} == {None}
