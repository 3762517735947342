"""Pages in headless Chromium, for tests and benchmarks: what a page says on its console is kept, and axe looks for barriers."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from tests.support.waiting import wait_until
from zoo_compute.dashboard.process import LOOPBACK, configured, listening
from zoo_compute.dashboard.reading import Reader

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from zoo_compute.dashboard.wallet import Wallet

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / ".axe" / "node_modules" / "axe-core" / "axe.min.js"  # `make test-browser` installs it
GRAVE = ("serious", "critical")


def chromium_path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def served(reader: Reader, wallet: Wallet | None = None) -> Iterator[str]:
    """The page's address, without a slash at its end. Its server ends with the block."""
    with listening(0) as listener:
        server = uvicorn.Server(configured(reader, wallet))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        wait_until("the page's server", lambda: server.started)
        try:
            yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def browsing() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page, and what went wrong on it. said: errors and warnings of its console, and its requests that failed."""

    def __init__(self, browser: Browser, address: str, **context: Any) -> None:
        self.page: Page = browser.new_context(**context).new_page()
        self._address = address
        self.said: list[str] = []
        self.page.on(
            "console", lambda message: self._say(message.text) if message.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self._say(str(error)))
        self.page.on("requestfailed", self._failed)

    def _failed(self, request: Any) -> None:
        if not request.url.endswith("/events") and "ERR_ABORTED" not in (request.failure or ""):
            self._say(f"{request.url}: {request.failure}")

    def _say(self, text: str) -> None:
        self.said.append(text)

    def open(self, path: str) -> Page:
        self.page.goto(self._address + path)
        return self.page

    def barriers(self) -> list[str]:
        """What axe calls serious or critical in the page as it is."""
        self.page.evaluate(AXE.read_text())
        result = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']} ({each['impact']}): {each['nodes'][0]['html'][:150]}"
            for each in result["violations"]
            if each["impact"] in GRAVE
        ]
