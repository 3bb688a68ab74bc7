"""A real terminal that a test can type into and read, run by tmux."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.process import PATIENCE_SECONDS, Process, eventually

LOOK_SECONDS = 0.1
TELL_SECONDS = PATIENCE_SECONDS
COLUMNS, ROWS = 120, 30


class Tmux:
    """One window with one command, usually a shell; processes in it end with it."""

    def __init__(self, folder: Path, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        program = shutil.which("tmux")
        assert program, "no tmux here; install the package tmux"
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._command = [str(part) for part in command]
        self._env = env
        # readline exports the size of its own terminal; programs would use it instead of the size of the window.
        sized = os.environ if env is None else env
        unsized = {name: value for name, value in sized.items() if name not in ("COLUMNS", "LINES")}
        self._tmux = [program, "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self.process = Process(folder, "tmux", [*self._tmux, "-D"], unsized)

    def __enter__(self) -> Self:
        self.process.start()
        try:
            self.process.until((self._folder / "tmux").is_socket, "listening")
            size = ("-x", str(COLUMNS), "-y", str(ROWS))
            self._tell("set-option", "-g", "remain-on-exit", "on")
            self._tell("new-session", "-d", *size, *self._command)
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def type(self, text: str) -> None:
        """Type a text literally."""
        self._tell("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names: `Enter`, `Escape`, `Tab`, `C-c`, or a letter."""
        self._tell("send-keys", *keys)

    def enter(self, line: str) -> None:
        """Type a line and Enter."""
        self.type(line)
        self.press("Enter")

    @property
    def lines(self) -> list[str]:
        """The text on the screen."""
        return [line.rstrip() for line in self._tell("capture-pane", "-p").splitlines()]

    @property
    def screen(self) -> str:
        return "\n".join(self.lines).rstrip()

    def asks(self, what: str) -> str:
        """Return a fact about the window, by a tmux format such as `#{alternate_on}`."""
        return self._tell("display-message", "-p", what).strip()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until `condition` holds; fail with the screen."""
        try:
            eventually(condition, what, LOOK_SECONDS)
        except AssertionError as error:
            error.add_note(self.screen)
            raise

    def until_shown(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.until(lambda: text in self.screen, f"shown {text!r}")

    def _tell(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], env=self._env, capture_output=True, text=True, timeout=TELL_SECONDS, check=False
        )
        assert done.returncode == 0, f"tmux {arguments[0]}: {done.stderr}"
        return done.stdout
