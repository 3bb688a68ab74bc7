"""A real browser that records all its complaints and requests."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.support.process import PATIENCE_SECONDS

ANSWER_MILLISECONDS = 1000 * PATIENCE_SECONDS
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",  # root cannot use the sandbox
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Scheme = Literal["light", "dark"]
SERIOUS = frozenset({"serious", "critical"})
REFUSED = "net::ERR_"  # how a browser reports a server that is gone; all other errors are faults of the page


@dataclass  # playwright sets attributes on the handlers, so there are no slots
class Onlooker:
    """One open page, with its requests and the complaints of the browser."""

    page: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", self._asks)
        self.page.on("console", self._says)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _asks(self, request: Request) -> None:
        self.asked.append(request.url)

    def _says(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and REFUSED not in message.text:
            self.complaints.append(message.text)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true in the page."""
        self.page.wait_for_function(f"() => {expression}", timeout=ANSWER_MILLISECONDS)

    def until_text(self, selector: str, pattern: str) -> None:
        """Wait until the text of an element contains a match of a regular expression."""
        self.until(f"/{pattern}/.test(document.querySelector({selector!r}).innerText)")

    def until_headline(self, words: str) -> None:
        self.until(f"document.getElementById('headline').textContent.includes({words!r})")

    def until_live(self) -> None:
        self.until("document.getElementById('link').textContent.startsWith('Live')")

    def barriers(self) -> list[str]:
        """Return the accessibility barriers that axe-core finds, one line each."""
        return [
            f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']]}"
            for one in Axe().run(self.page).response["violations"]
            if one["impact"] in SERIOUS
        ]

    def elsewhere(self, origin: str) -> list[str]:
        """Return the requests to other servers."""
        return [url for url in self.asked if not url.startswith((origin, "data:"))]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start the Chromium of the machine, or the one that `CHROMIUM_BIN` names."""
    program = os.environ.get("CHROMIUM_BIN") or next(filter(None, map(shutil.which, NAMES)), None)
    assert program, f"there is no browser here: install one of {', '.join(NAMES)}, or name one by CHROMIUM_BIN"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=Path(program), args=[*FLAGS], timeout=ANSWER_MILLISECONDS)
        try:
            yield started
        finally:
            started.close()


@contextlib.contextmanager
def onlooker(
    browser: Browser,
    url: str,
    scheme: Scheme = "light",
    width: int = 1280,
    height: int = 900,
    *,
    scripts: bool = True,
) -> Iterator[Onlooker]:
    """Open the page in a new browser context."""
    with contextlib.closing(
        browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=scripts
        )
    ) as context:
        context.set_default_timeout(ANSWER_MILLISECONDS)
        made = Onlooker(context.new_page())
        made.page.goto(url)
        yield made
