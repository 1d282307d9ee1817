"""A real browser for dashboard tests. It reports anything a good page never does."""

import mimetypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .requirements import missing, needed

PROGRAM = "chromium"
OPTIONS = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"]
PATIENCE_MS = 15_000


@contextmanager
def started() -> Iterator[Any]:
    """Headless Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    program = needed(PROGRAM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page with the errors of its console and the requests it made to other hosts."""

    page: Any
    origin: str
    faults: list[str] = field(default_factory=list)
    external_requests: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._on_request)

    def until(self, script: str, argument: Any = None) -> None:
        """Wait until this is true on the page. Playwright's own way of waiting for a script needs
        what the page's policy forbids."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.page.evaluate(script, argument):
            assert time.monotonic() < deadline, script
            self.page.wait_for_timeout(20)

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.text} ({message.location.get('url')})")

    def _on_request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("blob", "data") and parts.netloc != urlsplit(self.origin).netloc:
            self.external_requests.append(request.url)


@contextmanager
def open_page(browser: Any, url: str, **options: Any) -> Iterator[Watched]:
    """A new page, closed and checked at the end."""
    context = browser.new_context(locale=options.pop("locale", "en-GB"), **options)
    context.set_default_timeout(PATIENCE_MS)
    try:
        watched = Watched(context.new_page(), url)
        watched.watch()
        yield watched
        assert not watched.faults, watched.faults
        assert not watched.external_requests, watched.external_requests
    finally:
        context.close()


def drop(page: Any, *files: tuple[str, bytes]) -> None:
    """As if files were dragged from the desktop onto the page."""
    page.evaluate(
        """(files) => {
            const carried = new DataTransfer();
            for (const [name, bytes, type] of files)
                carried.items.add(new File([new Uint8Array(bytes)], name, {type}));
            const options = {dataTransfer: carried, bubbles: true, cancelable: true};
            for (const kind of ["dragenter", "dragover", "drop"])
                document.body.dispatchEvent(new DragEvent(kind, options));
        }""",
        [[name, list(data), mimetypes.guess_type(name)[0] or ""] for name, data in files],
    )
