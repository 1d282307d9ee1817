"""The documentation site: it builds, is complete, and makes no external requests."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser import started
from tests.http_servers import files_in
from tests.requirements import missing

from .examples import ROOT, pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in strict mode: a broken link or anchor, or a page missing in the menu, is an error."""
    if find_spec("material") is None:
        missing("mkdocs-material is not installed")
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(directory)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def test_what_the_program_can_tell_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/write_reference.py", "--check"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_every_page_is_there(site: Path) -> None:
    names = [page.relative_to(ROOT / "docs") for page in pages() if page.name != "README.md"]
    assert [name for name in names if not (site / name).with_suffix(".html").exists()] == []


def test_every_page_is_in_the_list_of_pages() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    names = [str(page.relative_to(ROOT / "docs")) for page in pages() if page.name != "README.md"]
    assert [name for name in names if f"({name})" not in text] == ["index.md"]


def test_nothing_comes_from_other_hosts(site: Path) -> None:
    loads = re.compile(
        r"""<(?:script|img|iframe|source|link)\b[^>]*(?:src|href)=["']?(?:https?:)?//"""
        r"""|(?:url\(|@import )["']?(?:https?:)?//"""
    )
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(files) > 30
    assert [file.name for file in files if loads.search(file.read_text())] == []


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with files_in(site) as url:
        yield url


def test_a_reader_finds_a_page_and_no_other_host_is_asked(address: str) -> None:
    with started() as browser:
        page = browser.new_page()
        urls: list[str] = []
        page.on("request", lambda request: urls.append(request.url))
        page.goto(f"{address}/index.html")
        hint = page.locator(".md-search-result__meta", has_text="Type to start searching")
        hint.wait_for(state="attached")  # before that, it does not listen
        page.get_by_label("Search").first.click()
        page.keyboard.type("fence")
        page.locator(".md-search-result__item a", has_text="Leases").first.wait_for()
        assert [url for url in urls if not url.startswith(address)] == []
