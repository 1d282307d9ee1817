"""Takes the dashboard screenshots for the documentation: `make pictures`."""

import tempfile
from pathlib import Path

import typst

from tests.acceptance.program import Program
from tests.browser import open_page, started
from tests.dashboard_demo import fill, views

OUTPUT = Path(__file__).parents[1] / "docs" / "img"
WIDE = {"width": 1280, "height": 800}

#: The part below shows paths of the machine that takes the screenshot.
CLIPS = {"system": {"x": 0, "y": 0, "width": 1280, "height": 440}}

REPORT = """
#set page(paper: "a5", margin: 16mm)
#set text(size: 10pt)
#set heading(numbering: "1.")
#align(center)[#text(20pt, weight: "bold")[Annual report] \\ The garden society]
= What we did
The beds along the river were dug over in March, and the orchard has *forty new trees*. Two
hundred people came to the open day.
#table(columns: 4, [], [Spring], [Summer], [Autumn],
  [Apples], [12], [96], [410], [Pears], [7], [41], [233], [Plums], [0], [180], [64])
= What comes next
- The greenhouse gets a new roof.
- Water from the river instead of the main.
#pagebreak()
= The accounts
#lorem(60)
#table(columns: 3, [Position], [2024], [2025], [Members], [8,200], [8,950], [Seeds], [3,100],
  [3,400], [Tools], [900], [1,250])
#pagebreak()
= Thanks
#lorem(80)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        source = directory / "report.typ"
        source.write_text(REPORT)
        report = typst.compile(str(source))
        assert isinstance(report, bytes)
        with Program(directory).serving() as service, started() as browser:
            ids = fill(service, report)
            with open_page(
                browser, service.url, viewport=WIDE, color_scheme="light", device_scale_factor=1
            ) as watched:
                for view in views(ids):
                    watched.page.goto(f"{service.url}/#{view.address}")
                    watched.page.locator(view.ready).first.wait_for()
                    watched.page.wait_for_timeout(
                        500
                    )  # until images are drawn and animations have ended
                    path = OUTPUT / f"dashboard-{view.name}.png"
                    watched.page.screenshot(path=path, clip=CLIPS.get(view.name))


if __name__ == "__main__":
    main()
