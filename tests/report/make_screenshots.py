"""Make the pictures of reports of an invented job: `python tests/report/make_screenshots.py`, with chromium."""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from rescale.report.report_page import html_report  # noqa: E402
from support.browser import browser, shown_as  # noqa: E402
from support.reports import plan_report, proven  # noqa: E402

WIDTH = 1100
MARGIN = 20

EDGE_SCRIPT = (
    "return document.querySelectorAll(arguments[0])[arguments[1]].getBoundingClientRect()[arguments[2]] + scrollY"
)


def main() -> None:
    folder = HERE / "screenshots"
    folder.mkdir(exist_ok=True)
    few_subtasks, many_subtasks = proven(plan_report((4, 128), (6, 128))), proven(plan_report((48, 1024), (64, 1024)))
    with tempfile.TemporaryDirectory() as scratch, browser(WIDTH, 1000) as driver:
        page = Path(scratch, "report.html")
        show(driver, page, few_subtasks, "light")
        take_picture(driver, folder / "report.png", 0, driver.execute_script(EDGE_SCRIPT, "figure", 0, "bottom"))
        show(driver, page, many_subtasks, "dark")
        edges = [driver.execute_script(EDGE_SCRIPT, *edge) for edge in (("h3", 0, "top"), ("figure", 1, "bottom"))]
        take_picture(driver, folder / "load.png", *edges)


def show(driver: Chrome, page: Path, document: dict[str, Any], theme: str) -> None:
    document["plan"]["taken"] = "2026-03-02 06:00:00+00:00"
    page.write_bytes(html_report(document))
    shown_as(driver, WIDTH, theme)
    driver.get(page.as_uri())


def take_picture(driver: Chrome, file: Path, top: float, bottom: float) -> None:
    """Take a picture of a part of the page, with a margin."""
    clip_top, clip_bottom = max(0, top - MARGIN), bottom + MARGIN
    clip = {"x": 0, "y": clip_top, "width": WIDTH, "height": clip_bottom - clip_top, "scale": 1}
    screenshot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    file.write_bytes(base64.b64decode(screenshot["data"]))


if __name__ == "__main__":
    main()
