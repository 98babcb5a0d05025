"""The report in a browser: at three widths, light and dark, printed, and with the keyboard alone."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from msgspec import structs
from selenium.webdriver import ActionChains, Chrome, Keys

from rescale.report.report_page import html_report
from support.browser import browser, shown_as
from support.reports import plan_of_report, proven

DARK, LIGHT = "rgb(18, 22, 27)", "rgb(255, 255, 255)"


@pytest.fixture(scope="module")
def driver() -> Iterator[Chrome]:
    with browser(1280, 1000) as chrome:
        yield chrome


@pytest.fixture(scope="module")
def report_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("report") / "report.html"
    plan = plan_of_report((4, 128), (6, 1000))
    evil_operator = structs.replace(plan.operators[1], label="<script>document.title = 'mine'</script>" + 100 * "long-")
    document = proven(structs.replace(plan, operators=(plan.operators[0], evil_operator, *plan.operators[2:])))
    file.write_bytes(html_report(document))
    return file.as_uri()


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (820, "dark"), (360, "light"), (360, "dark")])
def test_report_fits_its_width_and_follows_the_theme(driver: Chrome, report_uri: str, width: int, theme: str) -> None:
    shown_as(driver, width, theme)
    driver.get(report_uri)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == (DARK if theme == "dark" else LIGHT)
    # A picture that the page's Content-Security-Policy blocks has no size.
    script = "return [...document.querySelectorAll('svg image')].every(i => i.getBoundingClientRect().width > 100)"
    assert driver.execute_script(script)


def test_browser_logs_no_complaint_about_a_report(driver: Chrome, report_uri: str) -> None:
    shown_as(driver, 1280, "light")
    driver.get(report_uri)
    assert driver.title.startswith("Rescale of ")
    assert driver.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_report_can_be_used_with_the_keyboard_alone(driver: Chrome, report_uri: str) -> None:
    shown_as(driver, 1280, "light")
    driver.get(report_uri)
    keys = ActionChains(driver)
    keys.send_keys(Keys.TAB).perform()
    assert driver.switch_to.active_element.text == "To the content"
    driver.execute_script("document.querySelector('summary').focus()")
    keys.send_keys(Keys.ENTER).perform()
    assert driver.execute_script("return document.querySelector('details').open")
    keys.send_keys(Keys.TAB).perform()
    assert driver.switch_to.active_element.get_attribute("role") == "region"  # the table, which can be scrolled


def test_printed_report_has_its_tables_of_numbers(driver: Chrome, report_uri: str) -> None:
    shown_as(driver, 1280, "dark")
    driver.get(report_uri)
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
    assert pdf.startswith(b"%PDF")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == LIGHT
    height_script = "return document.querySelector('details table').getBoundingClientRect().height"
    assert driver.execute_script(height_script) > 20
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
