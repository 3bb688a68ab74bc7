"""What the image is made of, and what stays out of it, without building one."""

import re
import sys
from pathlib import Path

import pytest

from tools.image import build, rootfs

ROOT = Path(__file__).parents[2]


def test_what_pip_is_told_here_is_told_there() -> None:
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
def test_the_mirror_is_apts(listed: str, found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "run", lambda *_: listed)
    if found:
        assert build._mirror() == found
    else:
        with pytest.raises(build.ImageError, match="apt has no source for Debian bookworm"):
            build._mirror()


def test_a_base_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def run(*command: str | Path) -> str:
        made.append(str(command[0]))
        if command[0] == "tar":
            Path(command[command.index("--file") + 1]).touch()
        return "bookworm http://mirror.invalid/\n"

    monkeypatch.setattr(build, "run", run)
    archive = build.base_archive({"XDG_CACHE_HOME": str(tmp_path)})
    assert archive == build.base_archive({"XDG_CACHE_HOME": str(tmp_path)})
    assert archive.is_file()
    assert made == ["apt-get", "debootstrap", "tar"]


def test_nobody_but_root_on_debian_can_build_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(build.ImageError, match="no buildah here: install Debian's package of that name, or `docker b"):
        build.build("r")
    monkeypatch.undo()
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(build.ImageError, match="run this as root, or `docker build"):
        build.build("r")


def test_the_interpreter_is_where_the_environment_leads_to() -> None:
    found = rootfs._interpreter(Path(sys.prefix))
    assert not found.is_relative_to(sys.prefix)
    assert found.resolve() == Path(sys.executable).resolve()


def test_the_loader_says_what_it_opens() -> None:
    names = {path.name for path in rootfs._libraries([Path(sys.executable).resolve()])}
    assert {"libc.so.6"} < names
    assert any(name.startswith("ld-linux") for name in names)


def test_a_root_has_this_ones_links_and_no_more(tmp_path: Path) -> None:
    rootfs._skeleton(tmp_path / "root")
    links = {path.name for path in (tmp_path / "root").iterdir() if path.is_symlink()}
    assert links == {path.name for path in Path("/").iterdir() if path.is_symlink()}
    assert (tmp_path / "root/tmp").stat().st_mode & 0o7777 == 0o1777
    assert "nobody:x:65534:65534" in (tmp_path / "root/etc/passwd").read_text()


def test_what_the_image_needs_is_in_its_context() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert {f"!{path}" for line in copied for path in line.split()} == {line for line in ignored if line[0] == "!"}
    assert all((ROOT / line[1:]).exists() for line in ignored if line[0] == "!")
