"""The dashboard is accessible: axe-core checks every view."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..browser import open_page, started
from ..dashboard_demo import fill, views
from ..requirements import missing
from ..sample_documents import rich_pdf
from .program import Program, Running

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark, on a phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}
FAULTS = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`))"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Program(tmp_path_factory.mktemp("service")).serving() as running:
        yield running


@pytest.fixture(scope="module")
def axe() -> str:
    try:
        import axe_playwright_python
    except ImportError:
        missing("axe-core is not installed")
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def test_no_view_has_a_serious_fault(service: Running, axe: str) -> None:
    ids = fill(service, rich_pdf())
    faults: list[str] = []
    with started() as browser:
        for look, options in LOOKS.items():
            with open_page(browser, service.url, **options) as watched:
                for view in views(ids):
                    watched.page.goto(f"{service.url}/#{view.address}")
                    watched.page.locator(view.ready).first.wait_for()
                    watched.page.evaluate(f"{axe};0")
                    violations = watched.page.evaluate(FAULTS)
                    faults += [f"{view.name}, {look}: {fault}" for fault in violations]
    service.post(f"/api/jobs/{ids['running']}/cancel")  # so that the service can shut down at once
    assert faults == []
